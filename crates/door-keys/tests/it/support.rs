//! A door over keys in memory.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use door_keys::{Caller, Door, KeyScopes, Method, Request, Settings};
use serde_json::Value;
use vault::{KeyEncryptionKey, KeyStore, Keys, MemoryRecords, SecretKey};

pub(crate) const TOKEN: &str = "weir_test_token";

pub(crate) struct Node {
    pub(crate) store: KeyStore<MemoryRecords>,
    pub(crate) door: Door,
    pub(crate) scopes: KeyScopes,
    pub(crate) now_s: u64,
}

/// An answer as a client reads it.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|why| panic!("{why}: {}", self.text))
    }

    pub(crate) fn data(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()["data"].clone()
    }

    /// The first error, with the status.
    pub(crate) fn error(&self) -> (u16, String) {
        let errors = self.json()["errors"].clone();
        (self.status, errors[0].as_str().unwrap_or("none").to_owned())
    }

    pub(crate) fn results(&self) -> Vec<Value> {
        self.json()["data"]["batch_results"].as_array().unwrap().clone()
    }
}

pub(crate) fn b64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn unb64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

pub(crate) fn kek() -> KeyEncryptionKey {
    KeyEncryptionKey::new(&SecretKey::from_bytes(&[7; 32]))
}

impl Node {
    pub(crate) fn new() -> Node {
        let mut node = Node::sealed();
        node.store.unseal(kek()).unwrap();
        node
    }

    pub(crate) fn sealed() -> Node {
        let store = KeyStore::new(Keys::new(1000), MemoryRecords::default()).unwrap();
        let door = Door::new(Settings::default()).unwrap();
        Node { store, door, scopes: KeyScopes::default(), now_s: 1_763_816_555 }
    }

    /// A node with a key `a`.
    pub(crate) fn with_key(options: &str) -> Node {
        let mut node = Node::new();
        assert_eq!(node.post("transit/keys/a", options).status, 200);
        node
    }

    pub(crate) fn limited(mut self, scopes: &str) -> Node {
        self.scopes = KeyScopes::parse(scopes).unwrap();
        self
    }

    pub(crate) fn request<'a>(&self, method: &str, path: &'a str, body: &'a [u8]) -> Request<'a> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let method = Method::parse(method).unwrap();
        let (namespace, wrap_ttl, token) = (None, None, Some(TOKEN.as_bytes()));
        Request { method, path, query, namespace, wrap_ttl, token, body, now_s: self.now_s }
    }

    pub(crate) fn send(&mut self, request: &Request<'_>, is_known: bool) -> Got {
        let scopes = self.scopes.clone();
        let caller = Caller { name: "tester", scopes: &scopes };
        let caller = is_known.then_some(&caller);
        let answer = self.door.answer(request, caller, &mut self.store).unwrap();
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert_eq!(text.is_empty(), answer.status == 204);
        assert!(answer.headers.starts_with(b"Cache-Control: no-store\r\n"));
        Got { status: answer.status, text }
    }

    pub(crate) fn call(&mut self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Got {
        let path = format!("/v1/{path}");
        let request = self.request(method, &path, body.as_ref());
        self.send(&request, true)
    }

    pub(crate) fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> Got {
        self.call("POST", path, body)
    }

    pub(crate) fn get(&mut self, path: &str) -> Got {
        self.call("GET", path, "")
    }

    pub(crate) fn encrypt(&mut self, plaintext: &str) -> String {
        let body = format!(r#"{{"plaintext":"{}"}}"#, b64(plaintext));
        let data = self.post("transit/encrypt/a", body).data();
        data["ciphertext"].as_str().unwrap().to_owned()
    }

    pub(crate) fn decrypt(&mut self, ciphertext: &str) -> Result<String, (u16, String)> {
        let body = format!(r#"{{"ciphertext":"{ciphertext}"}}"#);
        let got = self.post("transit/decrypt/a", body);
        if got.status != 200 {
            return Err(got.error());
        }
        let plaintext = got.data()["plaintext"].as_str().unwrap().to_owned();
        Ok(String::from_utf8(unb64(&plaintext)).unwrap())
    }
}
