//! What others than callers may know of the keys: their names, versions and counts. Nothing here reads a secret.

use std::net::SocketAddr;

use vault::{Keys, NamedKey};

use super::live::LiveKeys;

/// Where the keys are looked at.
#[derive(Clone, Debug)]
pub struct KeysDesk {
    live: LiveKeys,
    listen: SocketAddr,
}

/// How the keys stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The key that unwraps them is not here.
    pub sealed: bool,
    /// All keys; 0 while they are sealed.
    pub count: usize,
    /// A page of them, by name.
    pub keys: Vec<KeyStanding>,
    /// There are more behind this page.
    pub more: bool,
}

/// How a key stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStanding {
    /// Its name.
    pub name: String,
    /// Its type, as clients write it.
    pub kind: &'static str,
    /// Its policy.
    pub policy: vault::KeyPolicy,
    /// The number of its latest version.
    pub latest: u32,
    /// How many versions are kept.
    pub versions: usize,
    /// When its latest version was made, seconds since 1970.
    pub rotated_s: u64,
    /// Messages that the latest version sealed, and how many it may; after a restart as many as it may have sealed. `None` of one that
    /// seals none.
    pub messages: Option<(u64, u64)>,
}

impl KeysDesk {
    pub(super) fn new(live: LiveKeys, listen: SocketAddr) -> KeysDesk {
        KeysDesk { live, listen }
    }

    /// Returns where the door listens.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Returns how the keys stand, and at most `max` of them behind the name `after`.
    #[must_use]
    pub fn standing(&self, after: &str, max: usize) -> Standing {
        let view = self.live.view();
        standing(view.keys(), after, max)
    }
}

fn standing(keys: &Keys, after: &str, max: usize) -> Standing {
    let mut behind = keys.iter().skip_while(|key| key.name().as_str() <= after);
    let page = behind.by_ref().take(max).map(of).collect();
    Standing {
        sealed: keys.is_sealed(),
        count: keys.len(),
        keys: page,
        more: behind.next().is_some(),
    }
}

fn of(key: &NamedKey) -> KeyStanding {
    let (policy, versions) = (*key.policy(), key.versions());
    let latest = versions.get(versions.latest());
    let messages = latest.and_then(|latest| {
        let max = policy.kind.sealing()?.messages_max();
        Some((latest.count().used(), max))
    });
    KeyStanding {
        name: key.name().as_str().to_owned(),
        kind: policy.kind.name(),
        policy,
        latest: versions.latest(),
        versions: versions.iter().count(),
        rotated_s: latest.map_or(0, |latest| latest.created_s()),
        messages,
    }
}

#[cfg(test)]
mod tests {
    use vault::{
        Change, KeyConfig, KeyEncryptionKey, KeyKind, KeyName, KeyPolicy, KeyStore, KeyType,
        MemoryRecords, SecretKey,
    };

    use super::*;

    fn store() -> KeyStore<MemoryRecords> {
        let mut store = KeyStore::new(Keys::new(9), MemoryRecords::default()).unwrap();
        store.unseal(KeyEncryptionKey::new(&SecretKey::from_bytes(&[7; 32]))).unwrap();
        let kinds = [KeyKind::Sealing(KeyType::Aes256Gcm96), KeyKind::Hmac { key_bytes: 32 }];
        for (name, kind) in ["b", "a", "c"].into_iter().zip(kinds.into_iter().cycle()) {
            let (name, policy) = (KeyName::new(name).unwrap(), KeyPolicy::new(kind));
            store.change(&Change::Create { name, policy }, 5).unwrap();
        }
        store
    }

    fn names(standing: &Standing) -> String {
        standing.keys.iter().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn keys_come_in_pages_by_their_names() {
        let store = store();
        let page = |after: &str, max| {
            let found = standing(store.keys(), after, max);
            assert_eq!((found.sealed, found.count), (false, 3));
            (names(&found), found.more)
        };
        assert_eq!(page("", 2), ("ab".into(), true));
        assert_eq!(page("b", 2), ("c".into(), false));
        assert_eq!(page("", 3), ("abc".into(), false));
        assert_eq!(page("bb", 9), ("c".into(), false), "the name need not be there any more");
        assert_eq!(page("z", 9), (String::new(), false));
    }

    #[test]
    fn a_key_tells_its_versions_and_what_the_latest_has_sealed() {
        let mut store = store();
        let name = || KeyName::new("b").unwrap();
        store.change(&Change::Rotate(name()), 9).unwrap();
        store.change(&Change::Reserve { name: name(), version: 2, messages: 3 }, 9).unwrap();
        store.keys().get("b").unwrap().versions().get(2).unwrap().count().take(3).unwrap();
        let config = KeyConfig { min_decryption: Some(2), ..KeyConfig::default() };
        store.change(&Change::Configure { name: name(), config }, 9).unwrap();
        let found = standing(store.keys(), "a", 1).keys.remove(0);
        assert_eq!((found.kind, found.latest, found.versions), ("aes256-gcm96", 2, 2));
        assert_eq!((found.rotated_s, found.policy.min_decryption), (9, 2));
        assert_eq!(found.messages, Some((3, 1 << 32)));
        assert_eq!(standing(store.keys(), "", 1).keys[0].messages, None, "it makes tags only");
    }

    #[test]
    fn sealed_keys_are_said_to_be_so() {
        let found = standing(&Keys::new(0), "", 9);
        assert_eq!((found.sealed, found.count, names(&found).as_str()), (true, 0, ""));
    }
}
