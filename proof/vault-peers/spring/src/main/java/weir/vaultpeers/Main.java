package weir.vaultpeers;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

import org.springframework.vault.VaultException;
import org.springframework.vault.authentication.TokenAuthentication;
import org.springframework.vault.client.VaultEndpoint;
import org.springframework.vault.core.VaultTemplate;
import org.springframework.vault.core.VaultTransitOperations;
import org.springframework.vault.support.Ciphertext;
import org.springframework.vault.support.Plaintext;
import org.springframework.vault.support.TransitKeyType;
import org.springframework.vault.support.VaultDecryptionResult;
import org.springframework.vault.support.VaultEncryptionResult;
import org.springframework.vault.support.VaultHmacRequest;
import org.springframework.vault.support.VaultTransitContext;
import org.springframework.vault.support.VaultTransitKeyConfiguration;
import org.springframework.vault.support.VaultTransitKeyCreationRequest;

/** Spring Vault, unmodified, against running nodes; proof/vault-peers/run starts them and says where they are. */
public final class Main {
    private static int checks;

    private final VaultTransitOperations transit = client("OPEN").opsForTransit();

    public static void main(String[] arguments) {
        Main main = new Main();
        main.keys();
        main.messages();
        main.batches();
        main.contexts();
        main.versions();
        main.tagsAndExports();
        main.system();
        System.out.println("Spring Vault: " + checks + " checks");
    }

    private static VaultTemplate client(String node) {
        return client(node, System.getenv(node + "_TOKEN"));
    }

    private static VaultTemplate client(String node, String token) {
        URI address = URI.create(Objects.requireNonNull(System.getenv(node + "_URL"), "start this with proof/vault-peers/run"));
        return new VaultTemplate(VaultEndpoint.from(address), new TokenAuthentication(token));
    }

    private static void same(Object expected, Object found) {
        checks++;
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private static void refused(String text, Runnable call) {
        checks++;
        try {
            call.run();
        } catch (VaultException error) {
            if (error.getMessage().contains(text)) {
                return;
            }
            throw new AssertionError("expected an error with " + text, error);
        }
        throw new AssertionError("expected an error with " + text + ", and the call was done");
    }

    private void keys() {
        transit.createKey("spring");
        transit.createKey("spring-own", VaultTransitKeyCreationRequest.ofKeyType("aes256-gcm-siv"));
        same("aes256-gcm-siv", transit.getKey("spring-own").getType());
        var key = transit.getKey("spring");
        same("aes256-gcm96", key.getType());
        same(1, key.getLatestVersion());
        same(List.of(true, true, false), List.of(key.supportsEncryption(), key.supportsDerivation(), key.supportsSigning()));
        same(List.of("1"), List.copyOf(key.getKeys().keySet()));
        same(true, transit.getKeys().containsAll(List.of("spring", "spring-own")));
        same(null, transit.getKey("spring-nobody"));
        refused("unknown key type", () -> transit.createKey("x", VaultTransitKeyCreationRequest.ofKeyType("rsa-2048")));
        refused("deletion is not allowed", () -> transit.deleteKey("spring-own"));
        transit.configureKey("spring-own", VaultTransitKeyConfiguration.builder().deletionAllowed(true).build());
        transit.deleteKey("spring-own");
        same(null, transit.getKey("spring-own"));
    }

    private void messages() {
        String sealed = transit.encrypt("spring", "hello");
        same(true, sealed.startsWith("vault:v1:"));
        same("hello", transit.decrypt("spring", sealed));
        same("", transit.decrypt("spring", transit.encrypt("spring", "")));
        same("\u20ac\0", transit.decrypt("spring", transit.encrypt("spring", Plaintext.of("\u20ac\0"))).asString());
        refused("message authentication failed", () -> transit.decrypt("spring", "vault:v1:" + "A".repeat(64)));
        refused("no prefix", () -> transit.decrypt("spring", "nothing"));
        refused("encryption key not found", () -> transit.decrypt("spring-nobody", sealed));
    }

    private void batches() {
        List<Plaintext> texts = new ArrayList<>();
        for (int number = 0; number < 5_000; number++) {
            texts.add(Plaintext.of("serial " + number));
        }
        List<VaultEncryptionResult> sealed = transit.encrypt("spring", texts);
        List<Ciphertext> ciphertexts = sealed.stream().map(VaultEncryptionResult::get).toList();
        List<VaultDecryptionResult> opened = transit.decrypt("spring", ciphertexts);
        same(texts.stream().map(Plaintext::asString).toList(), opened.stream().map(VaultDecryptionResult::getAsString).toList());
        // The template makes an exception of the 400 of a mixed batch; its message is the body, with every item.
        List<Ciphertext> mixed = List.of(ciphertexts.get(0), Ciphertext.of("vault:v1:" + "A".repeat(64)));
        refused("message authentication failed", () -> transit.decrypt("spring", mixed));
    }

    private void contexts() {
        transit.createKey("spring-derived", VaultTransitKeyCreationRequest.builder().derived(true).convergentEncryption(true).build());
        same(List.of(true, true), List.of(transit.getKey("spring-derived").isDerived(), transit.getKey("spring-derived").supportsConvergentEncryption()));
        VaultTransitContext context = VaultTransitContext.fromContext("customer 7".getBytes(StandardCharsets.UTF_8));
        byte[] hello = "hello".getBytes(StandardCharsets.UTF_8);
        String sealed = transit.encrypt("spring-derived", hello, context);
        same(sealed, transit.encrypt("spring-derived", hello, context));
        same("hello", new String(transit.decrypt("spring-derived", sealed, context), StandardCharsets.UTF_8));
        Ciphertext one = transit.encrypt("spring-derived", List.of(Plaintext.of("hello").with(context))).get(0).get();
        same(sealed, one.getCiphertext());
        same("hello", transit.decrypt("spring-derived", List.of(one)).get(0).getAsString());
    }

    private void versions() {
        String old = transit.encrypt("spring", "hello");
        transit.rotate("spring");
        same(2, transit.getKey("spring").getLatestVersion());
        String rewrapped = transit.rewrap("spring", old);
        same(true, rewrapped.startsWith("vault:v2:"));
        same("hello", transit.decrypt("spring", rewrapped));
        Ciphertext inBatch = transit.rewrap("spring", List.of(Ciphertext.of(old))).get(0).get();
        same("hello", transit.decrypt("spring", inBatch).asString());
        transit.configureKey("spring", VaultTransitKeyConfiguration.builder().minDecryptionVersion(2).minEncryptionVersion(2).build());
        same(2, transit.getKey("spring").getMinDecryptionVersion());
        refused("too old", () -> transit.decrypt("spring", old));
    }

    private void tagsAndExports() {
        String tag = transit.getHmac("spring", Plaintext.of("hello")).getHmac();
        same(true, tag.startsWith("vault:v2:"));
        var request = VaultHmacRequest.builder().plaintext(Plaintext.of("hello")).algorithm("sha2-512").build();
        same(false, tag.equals(transit.getHmac("spring", request).getHmac()));
        refused("not exportable", () -> transit.exportKey("spring", TransitKeyType.ENCRYPTION_KEY));
        transit.createKey("spring-out", VaultTransitKeyCreationRequest.builder().exportable(true).build());
        same(44, transit.exportKey("spring-out", TransitKeyType.ENCRYPTION_KEY).getKeys().get("1").length());
        refused("supports signing", () -> transit.sign("spring", Plaintext.of("hello")));
    }

    private void system() {
        var sys = client("OPEN").opsForSys();
        var health = sys.health();
        same(List.of(true, false, false), List.of(health.isInitialized(), health.isSealed(), health.isStandby()));
        same(true, health.getServerTimeUtc() > 1_700_000_000);
        same(true, sys.isInitialized());
        same("transit", sys.getMounts().get("transit/").getType());
        same(false, sys.getUnsealStatus().isSealed());
        same(true, client("SEALED").opsForSys().getUnsealStatus().isSealed());
        refused("Vault is sealed", () -> client("SEALED").opsForTransit().encrypt("a", "hello"));
        refused("permission denied", () -> client("OPEN", "wrong").opsForTransit().encrypt("a", "hello"));
    }
}
