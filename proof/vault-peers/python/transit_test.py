"""hvac, unmodified, against running nodes: every method of `client.secrets.transit` but signing, and what it asks of `sys` and `auth`.

`proof/vault-peers/run` starts the nodes and says where they are.
"""

import base64
import os
import unittest
from importlib.metadata import version

import hvac
from hvac import exceptions

HELLO = base64.b64encode(b"hello").decode()
WORLD = base64.b64encode(b"world").decode()
CONTEXT = base64.b64encode(b"customer 7").decode()


def client_of(node: str, **more) -> hvac.Client:
    options = {"token": os.environ[f"{node}_TOKEN"], "timeout": 20} | more
    return hvac.Client(url=os.environ[f"{node}_URL"], **options)


class Case(unittest.TestCase):
    """A client, closed at the end."""

    def setUp(self):
        self.client = self.closed(client_of("OPEN"))
        self.transit = self.client.secrets.transit

    def closed(self, client: hvac.Client) -> hvac.Client:
        self.addCleanup(client.adapter.close)
        return client

    def refused(self, kind, text, call, *args, **named):
        """The call raises exactly this class, with this text among its errors."""
        with self.assertRaises(exceptions.VaultError) as caught:
            call(*args, **named)
        self.assertIs(type(caught.exception), kind, caught.exception)
        if text is None:
            self.assertEqual(caught.exception.errors, [])
        else:
            self.assertIn(text, " ".join(caught.exception.errors))
        return caught.exception


class Keys(Case):
    def test_a_key_is_made_read_listed_and_made_again(self):
        made = self.transit.create_key(name="made", key_type="aes256-gcm96")["data"]
        self.assertEqual((made["name"], made["type"], made["latest_version"]), ("made", "aes256-gcm96", 1))
        self.assertFalse(made["derived"] or made["exportable"] or made["deletion_allowed"] or made["allow_plaintext_backup"])
        again = self.transit.create_key(name="made", exportable=True)
        self.assertIn("already existed", again["warnings"][0])
        read = self.transit.read_key(name="made")
        self.assertEqual(read["data"], made)
        self.assertIsNone(read["warnings"])
        self.assertEqual(list(read["data"]["keys"]), ["1"])
        for strict in (False, True):
            client = self.closed(client_of("OPEN", strict_http=strict))
            self.assertIn("made", client.secrets.transit.list_keys()["data"]["keys"])

    def test_a_key_that_is_not_there(self):
        self.refused(exceptions.InvalidPath, None, self.transit.read_key, name="nobody")
        self.refused(exceptions.InvalidRequest, "encryption key not found", self.transit.decrypt_data, name="nobody", ciphertext="vault:v1:AAAA")
        self.refused(exceptions.InvalidRequest, "could not delete key; not found", self.transit.delete_key, name="nobody")

    def test_types_of_our_own_and_others(self):
        # hvac itself names aes256-gcm96 alone of what is offered.
        for kind in ("aes128-gcm96", "aes256-gcm-siv", "aes256-cbc-cmac", "aes256-cbc-hmac-sha256"):
            name = f"own-{kind}"
            self.client.write_data(f"transit/keys/{name}", data={"type": kind})
            sealed = self.transit.encrypt_data(name=name, plaintext=HELLO)["data"]["ciphertext"]
            self.assertEqual(self.transit.decrypt_data(name=name, ciphertext=sealed)["data"]["plaintext"], HELLO)
        self.client.write_data("transit/keys/half", data={"type": "aes128-gcm96", "exportable": True})
        exported = self.transit.export_key(name="half", key_type="encryption-key")["data"]["keys"]["1"]
        self.assertEqual(len(base64.b64decode(exported)), 16)
        for kind in ("ed25519", "rsa-2048", "chacha20-poly1305"):
            self.refused(exceptions.InvalidRequest, f"unknown key type {kind}", self.transit.create_key, name="other", key_type=kind)

    def test_rotating_configuring_and_trimming(self):
        self.transit.create_key(name="turned")
        old = self.transit.encrypt_data(name="turned", plaintext=HELLO)["data"]["ciphertext"]
        self.transit.rotate_key(name="turned")
        self.transit.rotate_key(name="turned")
        self.assertEqual(self.transit.read_key(name="turned")["data"]["latest_version"], 3)
        self.assertEqual(self.transit.decrypt_data(name="turned", ciphertext=old)["data"]["plaintext"], HELLO)
        self.transit.update_key_configuration(name="turned", min_decryption_version=2, min_encryption_version=3, auto_rotate_period="720h")
        read = self.transit.read_key(name="turned")["data"]
        self.assertEqual((read["min_decryption_version"], read["min_encryption_version"]), (2, 3))
        self.assertEqual((list(read["keys"]), read["auto_rotate_period"]), (["2", "3"], 720 * 3600))
        self.refused(exceptions.InvalidRequest, "too old", self.transit.decrypt_data, name="turned", ciphertext=old)
        self.transit.trim_key(name="turned", min_version=2)
        self.assertEqual(self.transit.read_key(name="turned")["data"]["min_available_version"], 2)
        self.refused(exceptions.InvalidRequest, "latest key version is 3", self.transit.update_key_configuration, name="turned", min_decryption_version=9)

    def test_deleting_wants_to_be_allowed(self):
        self.transit.create_key(name="gone")
        self.refused(exceptions.InvalidRequest, "deletion is not allowed for this key", self.transit.delete_key, name="gone")
        self.transit.update_key_configuration(name="gone", deletion_allowed=True)
        self.assertEqual(self.transit.delete_key(name="gone").status_code, 204)
        self.refused(exceptions.InvalidPath, None, self.transit.read_key, name="gone")

    def test_exporting_backing_up_and_restoring(self):
        self.transit.create_key(name="kept")
        self.refused(exceptions.InvalidRequest, "not exportable", self.transit.export_key, name="kept", key_type="encryption-key")
        self.transit.update_key_configuration(name="kept", exportable=True)
        self.refused(exceptions.InternalServerError, "plaintext backup is disallowed", self.transit.backup_key, name="kept")
        self.transit.update_key_configuration(name="kept", allow_plaintext_backup=True)
        sealed = self.transit.encrypt_data(name="kept", plaintext=HELLO)["data"]["ciphertext"]
        keys = self.transit.export_key(name="kept", key_type="encryption-key")["data"]["keys"]
        self.assertEqual(len(base64.b64decode(keys["1"])), 32)
        for version in ("1", "latest"):
            self.assertEqual(self.transit.export_key(name="kept", key_type="encryption-key", version=version)["data"]["keys"], keys)
        tags = self.transit.export_key(name="kept", key_type="hmac-key")["data"]["keys"]
        self.assertNotEqual(tags, keys)
        backup = self.transit.backup_key(name="kept")["data"]["backup"]
        self.refused(exceptions.InvalidRequest, "already exists", self.transit.restore_key, backup=backup, name="kept")
        self.assertEqual(self.transit.restore_key(backup=backup, name="kept", force=True).status_code, 204)
        self.assertEqual(self.transit.restore_key(backup=backup, name="moved").status_code, 204)
        self.assertEqual(self.transit.decrypt_data(name="moved", ciphertext=sealed)["data"]["plaintext"], HELLO)


class Messages(Case):
    def test_one_message_there_and_back(self):
        sealed = self.transit.encrypt_data(name="upsert", plaintext=HELLO)["data"]
        self.assertTrue(sealed["ciphertext"].startswith("vault:v1:"))
        self.assertEqual(sealed["key_version"], 1)
        opened = self.transit.decrypt_data(name="upsert", ciphertext=sealed["ciphertext"])["data"]
        self.assertEqual(opened, {"plaintext": HELLO})
        # hvac itself does not send an empty text without a batch.
        empty = self.transit.encrypt_data(name="upsert", batch_input=[{"plaintext": ""}])["data"]["batch_results"]
        self.assertEqual(self.transit.decrypt_data(name="upsert", ciphertext=empty[0]["ciphertext"])["data"]["plaintext"], "")

    def test_associated_data_binds(self):
        sealed = self.transit.encrypt_data(name="bound", plaintext=HELLO, associated_data=WORLD)["data"]["ciphertext"]
        self.assertEqual(self.transit.decrypt_data(name="bound", ciphertext=sealed, associated_data=WORLD)["data"]["plaintext"], HELLO)
        for other in (HELLO, None):
            self.refused(exceptions.InvalidRequest, "message authentication failed", self.transit.decrypt_data, name="bound", ciphertext=sealed, associated_data=other)

    def test_contexts_derive_and_converge(self):
        self.transit.create_key(name="derived", derived=True, convergent_encryption=True)
        read = self.transit.read_key(name="derived")["data"]
        self.assertEqual((read["derived"], read["kdf"], read["convergent_encryption"]), (True, "hkdf_sha256", True))
        seal = lambda context: self.transit.encrypt_data(name="derived", plaintext=HELLO, context=context)["data"]["ciphertext"]
        first, second = seal(CONTEXT), seal(CONTEXT)
        self.assertEqual(first, second)
        self.assertNotEqual(first, seal(WORLD))
        self.assertEqual(self.transit.decrypt_data(name="derived", ciphertext=first, context=CONTEXT)["data"]["plaintext"], HELLO)
        self.refused(exceptions.InvalidRequest, "message authentication failed", self.transit.decrypt_data, name="derived", ciphertext=first, context=WORLD)
        self.refused(exceptions.InvalidRequest, "context", self.transit.encrypt_data, name="derived", plaintext=HELLO)

    def test_a_batch_in_its_order_beyond_the_limit_of_others(self):
        texts = [base64.b64encode(f"serial {number}".encode()).decode() for number in range(20_000)]
        batch = [{"plaintext": text, "reference": str(number)} for number, text in enumerate(texts)]
        sealed = self.transit.encrypt_data(name="many", batch_input=batch)["data"]["batch_results"]
        self.assertEqual([item["reference"] for item in sealed], [str(number) for number in range(20_000)])
        opened = self.transit.decrypt_data(name="many", batch_input=[{"ciphertext": item["ciphertext"]} for item in sealed])["data"]["batch_results"]
        self.assertEqual([item["plaintext"] for item in opened], texts)
        self.transit.rotate_key(name="many")
        rewrapped = self.transit.rewrap_data(name="many", ciphertext="", batch_input=[{"ciphertext": item["ciphertext"]} for item in sealed[:50]])
        for item, text in zip(rewrapped["data"]["batch_results"], texts):
            self.assertTrue(item["ciphertext"].startswith("vault:v2:"))
            self.assertEqual(self.transit.decrypt_data(name="many", ciphertext=item["ciphertext"])["data"]["plaintext"], text)

    def test_a_batch_with_a_bad_item(self):
        sealed = self.transit.encrypt_data(name="mixed", plaintext=HELLO)["data"]["ciphertext"]
        changed = sealed[:-6] + ("A" if sealed[-6] != "A" else "B") + sealed[-5:]
        batch = [{"ciphertext": sealed}, {"ciphertext": changed}, {"ciphertext": "vault:v9:AAAA"}, {"ciphertext": ""}]
        error = self.refused(exceptions.InvalidRequest, "", self.batch_raises, "mixed", batch)
        results = error.json["data"]["batch_results"]
        self.assertEqual(results[0], {"plaintext": HELLO, "reference": ""})
        texts = ["cipher: message authentication failed", "invalid ciphertext: version is too new", "missing ciphertext to decrypt"]
        for item, text in zip(results[1:], texts):
            self.assertEqual(item, {"plaintext": "", "error": text, "reference": ""})
        asked = {"batch_input": batch, "partial_failure_response_code": 200}
        done = self.client.write_data("transit/decrypt/mixed", data=asked)["data"]["batch_results"]
        self.assertEqual(done, results)

    def batch_raises(self, name, batch):
        try:
            self.transit.decrypt_data(name=name, batch_input=batch)
        except exceptions.VaultError as error:
            # The whole frame is the body, and hvac finds no `errors` in it.
            error.errors = error.errors or []
            raise

    def test_bad_batches(self):
        for batch, text in [
            ([], "missing batch input to process"),
            ([{}], "missing plaintext to encrypt"),
            ([{"plaintext": 5}], "expected type 'string'"),
            (["text"], "expected a map, got 'string'"),
            ([{"plaintext": HELLO, "key_version": "1"}], "expected type 'int'"),
            ([{"plaintext": HELLO, "context": CONTEXT}, {"plaintext": HELLO}], "context should be set either in all"),
        ]:
            if batch:
                self.refused(exceptions.InvalidRequest, text, self.transit.encrypt_data, name="bad", batch_input=batch)
            else:
                self.refused(exceptions.InvalidRequest, text, self.client.write_data, "transit/encrypt/bad", data={"batch_input": batch})

    def test_rewrapping_one(self):
        self.transit.create_key(name="wrapped")
        old = self.transit.encrypt_data(name="wrapped", plaintext=HELLO)["data"]["ciphertext"]
        self.transit.rotate_key(name="wrapped")
        new = self.transit.rewrap_data(name="wrapped", ciphertext=old)["data"]
        self.assertEqual((new["ciphertext"][:9], new["key_version"]), ("vault:v2:", 2))
        back = self.transit.rewrap_data(name="wrapped", ciphertext=new["ciphertext"], key_version=1)["data"]
        self.assertEqual(back["ciphertext"][:9], "vault:v1:")

    def test_data_keys(self):
        self.transit.create_key(name="data")
        for bits in (128, 256, 512):
            made = self.transit.generate_data_key(name="data", key_type="plaintext", bits=bits)["data"]
            self.assertEqual(len(base64.b64decode(made["plaintext"])), bits // 8)
            self.assertEqual(self.transit.decrypt_data(name="data", ciphertext=made["ciphertext"])["data"]["plaintext"], made["plaintext"])
        wrapped = self.transit.generate_data_key(name="data", key_type="wrapped")["data"]
        self.assertNotIn("plaintext", wrapped)

    def test_tags(self):
        self.transit.create_key(name="tags")
        for algorithm in ("sha2-224", "sha2-256", "sha2-384", "sha2-512"):
            tag = self.transit.generate_hmac(name="tags", hash_input=HELLO, algorithm=algorithm)["data"]["hmac"]
            # hvac's own parameter of `verify` is `hash_algorithm`, which Transit knows as another name of `algorithm`.
            verify = lambda text: self.transit.verify_signed_data(name="tags", hash_input=text, hmac=tag, hash_algorithm=algorithm)
            self.assertIs(verify(HELLO)["data"]["valid"], True, algorithm)
            self.assertIs(verify(WORLD)["data"]["valid"], False)
        self.refused(exceptions.InvalidRequest, "key type aes256-gcm96 does not support verification", self.transit.verify_signed_data, name="tags", hash_input=HELLO, signature="vault:v1:AAAA")
        self.refused(exceptions.InvalidRequest, "supports signing", self.transit.sign_data, name="tags", hash_input=HELLO)

    def test_hashes_and_random_bytes(self):
        import hashlib

        for algorithm, name in (("sha2-224", "sha224"), ("sha2-256", "sha256"), ("sha2-384", "sha384"), ("sha2-512", "sha512")):
            digest = hashlib.new(name, b"hello")
            found = self.transit.hash_data(hash_input=HELLO, algorithm=algorithm, output_format="hex")["data"]["sum"]
            self.assertEqual(found, digest.hexdigest())
            found = self.transit.hash_data(hash_input=HELLO, algorithm=algorithm, output_format="base64")["data"]["sum"]
            self.assertEqual(base64.b64decode(found), digest.digest())
        self.assertEqual(len(base64.b64decode(self.transit.generate_random_bytes()["data"]["random_bytes"])), 32)
        found = self.transit.generate_random_bytes(n_bytes=100, output_format="hex")["data"]["random_bytes"]
        self.assertEqual(len(bytes.fromhex(found)), 100)


class System(Case):
    def test_health_and_seals(self):
        for method in ("GET", "HEAD"):
            found = self.client.sys.read_health_status(method=method)
            if method == "GET":
                self.assertEqual((found["initialized"], found["sealed"], found["standby"]), (True, False, False))
            else:
                self.assertEqual(found.status_code, 200)
        self.assertFalse(self.client.sys.is_sealed())
        self.assertTrue(self.client.sys.is_initialized())
        self.assertFalse(self.client.sys.read_leader_status()["ha_enabled"])
        self.assertEqual(self.client.sys.list_mounted_secrets_engines()["data"]["transit/"]["type"], "transit")
        self.refused(exceptions.InvalidRequest, "already in use", self.client.sys.enable_secrets_engine, backend_type="transit")
        self.assertEqual(self.client.sys.get_capabilities(paths=["transit/encrypt/a"])["data"]["capabilities"], ["root"])

    def test_tokens(self):
        self.assertTrue(self.client.is_authenticated())
        self.assertEqual(self.client.auth.token.lookup_self()["data"]["policies"], ["root"])
        for token in ("wrong", None):
            client = self.closed(client_of("OPEN", token=token))
            self.assertFalse(client.is_authenticated())
        client = self.closed(client_of("OPEN", token="wrong"))
        self.refused(exceptions.Forbidden, "permission denied", client.secrets.transit.read_key, name="made")
        self.refused(exceptions.Forbidden, "permission denied", client.secrets.transit.encrypt_data, name="made", plaintext=HELLO)

    def test_paths_and_methods(self):
        self.refused(exceptions.InvalidPath, "no handler for route", self.client.secrets.transit.read_key, name="a", mount_point="nope")
        self.assertIsNone(self.client.read("transit/nothing/here"), "hvac's own reading of a 404")
        self.refused(exceptions.InvalidPath, "unsupported path", self.client.write_data, "transit/nothing/here", data={})
        # hvac has a class for 405 and does not raise it.
        self.refused(exceptions.UnexpectedError, "unsupported operation", self.client.delete, "transit/encrypt/a")
        wrapped = lambda: self.client.write("transit/keys/wrapping", "60s")
        self.refused(exceptions.InvalidRequest, "response wrapping is not supported", wrapped)
        elsewhere = self.closed(client_of("OPEN", namespace="team"))
        self.refused(exceptions.InvalidPath, "namespace not found", elsewhere.secrets.transit.read_key, name="a")

    def test_sealed(self):
        client = self.closed(client_of("SEALED"))
        self.assertTrue(client.sys.is_sealed())
        self.assertEqual(client.sys.read_health_status(method="HEAD").status_code, 503)
        self.refused(exceptions.VaultDown, "Vault is sealed", client.secrets.transit.encrypt_data, name="a", plaintext=HELLO)

    def test_unsealing(self):
        never = self.closed(client_of("SEALED"))
        self.refused(exceptions.InvalidRequest, "no key that wraps its keys yet", never.sys.submit_unseal_key, key=os.environ["LATER_KEY"])
        stranger = self.closed(client_of("LATER", token="wrong"))
        self.refused(exceptions.Forbidden, "permission denied", stranger.sys.submit_unseal_key, key=os.environ["LATER_KEY"])
        client = self.closed(client_of("LATER"))
        self.assertTrue(client.sys.is_sealed())
        self.refused(exceptions.InvalidRequest, "expected 64 hexadecimal digits", client.sys.submit_unseal_key, key="abcd")
        self.refused(exceptions.InvalidRequest, "nothing was written", client.sys.submit_unseal_key, key="a" * 64)
        self.assertFalse(client.sys.submit_unseal_key(key=os.environ["LATER_KEY"])["sealed"])
        self.assertFalse(client.sys.is_sealed())
        sealed = client.secrets.transit.encrypt_data(name="late", plaintext=HELLO)["data"]["ciphertext"]
        self.assertEqual(client.secrets.transit.decrypt_data(name="late", ciphertext=sealed)["data"]["plaintext"], HELLO)

    def test_a_limited_token_is_told(self):
        client = self.closed(client_of("LIMITED"))
        with self.assertRaises(exceptions.RateLimitExceeded) as caught:
            for _ in range(10_000):
                client.secrets.transit.generate_random_bytes()
        self.assertIn("rate limit quota exceeded", caught.exception.errors[0])


if __name__ == "__main__":
    print("hvac", version("hvac"))
    unittest.main()
