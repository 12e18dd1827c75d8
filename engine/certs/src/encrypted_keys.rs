//! Encrypted private keys: `ENCRYPTED PRIVATE KEY` (RFC 5958, section 3, with PBES2 of RFC 8018), and the older format
//! with `Proc-Type: 4,ENCRYPTED` (RFC 1421, section 4.6.1.1) and OpenSSL's key derivation. Unencrypted keys are in
//! `pair`.

use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use des::TdesEde3;
use des::cipher::generic_array::GenericArray;
use des::cipher::{BlockDecrypt, KeyInit};
use md5::{Digest, Md5};
use pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use crate::failure::CertsError;
use crate::limits::{PASSWORD_BYTES_MAX, PASSWORDS_MAX, PBKDF2_ROUNDS_MAX};
use crate::pem_file::read_file;
use sluice_net::tls::der::{INTEGER, OCTET_STRING, OID, Reader, SEQUENCE};

/// The OIDs `id-PBES2`, `id-PBKDF2` and `id-scrypt`, without tag and length (RFC 8018, appendix C; RFC 7914, section
/// 7).
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
const SCRYPT: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x04, 0x0b];
/// The common prefix of the OIDs `id-hmacWith…`; the last byte identifies the hash.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
/// The common prefix of the AES OIDs (NIST); the last byte identifies key length and mode.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];
/// `des-EDE3-CBC` (RFC 8018, appendix B.2.2).
const DES_EDE3: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x03, 0x07];

/// Passwords of private keys, from a file with one per line. They are tried in order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Passwords {
    path: PathBuf,
    list: Vec<Vec<u8>>,
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Passwords must not end up in a log.
        write!(f, "{} passwords of {:?}", self.list.len(), self.path)
    }
}

impl Passwords {
    /// Reads a password file, which may be a pipe.
    ///
    /// # Errors
    /// The file cannot be read, is larger than a megabyte, or exceeds the limits on number and length of lines.
    pub fn read(path: &Path) -> Result<Passwords, CertsError> {
        let missing = || CertsError::io("read", path, std::io::ErrorKind::NotFound.into());
        let text = read_file(path)?.ok_or_else(missing)?;
        let damaged = |what: String| CertsError::Damaged {
            path: path.to_owned(),
            what,
        };
        let mut list = Vec::new();
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() > PASSWORD_BYTES_MAX {
                let what = format!("line {} has over {PASSWORD_BYTES_MAX} bytes", at + 1);
                return Err(damaged(what));
            }
            if !line.is_empty() {
                list.push(line.to_vec());
            }
        }
        if list.len() > PASSWORDS_MAX {
            return Err(damaged(format!(
                "it holds more than {PASSWORDS_MAX} passwords"
            )));
        }
        Ok(Passwords {
            path: path.to_owned(),
            list,
        })
    }

    /// Whether there are no passwords.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Whether a PEM text contains an encrypted key.
pub(crate) fn is_sealed(text: &[u8]) -> bool {
    Block::find(text).is_some()
}

/// Decrypts the encrypted key in `text`, which is from `path`, with the first of `passwords` that works.
pub(crate) fn open(
    text: &[u8],
    passwords: &Passwords,
    path: &Path,
) -> Result<PrivateKeyDer<'static>, CertsError> {
    let damaged = |what: &str| CertsError::Damaged {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    let block = Block::find(text).ok_or_else(|| damaged("it contains no encrypted key"))?;
    if passwords.is_empty() {
        return Err(CertsError::EncryptedKey(path.to_owned()));
    }
    let seal = block.seal().map_err(|fault| match fault {
        Fault::Damaged => damaged("cannot read the encrypted key"),
        Fault::Unknown(scheme) => CertsError::UnusableKey {
            path: path.to_owned(),
            what: format!("it is encrypted with {scheme}, which is not supported"),
        },
    })?;
    let opened = passwords.list.iter().find_map(|password| {
        let plain = seal.open(password)?;
        // The padding is valid for one wrong password in 256; then the result is not a key.
        let mut rest = Reader(&plain);
        let is_key = rest.take(SEQUENCE).is_some() && rest.0.is_empty();
        is_key.then_some(plain)
    });
    let plain = opened.ok_or_else(|| CertsError::WrongPassword {
        key: path.to_owned(),
        passwords: passwords.path.clone(),
    })?;
    Ok(match block.label {
        Label::Pkcs8 => PrivatePkcs8KeyDer::from(plain).into(),
        Label::Rsa => PrivatePkcs1KeyDer::from(plain).into(),
        Label::Ec => PrivateSec1KeyDer::from(plain).into(),
    })
}

/// The key format inside a PEM block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Pkcs8,
    Rsa,
    Ec,
}

const LABELS: [(&[u8], Label); 3] = [
    (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", Label::Pkcs8),
    (b"-----BEGIN RSA PRIVATE KEY-----", Label::Rsa),
    (b"-----BEGIN EC PRIVATE KEY-----", Label::Ec),
];

/// A PEM block with an encrypted key.
struct Block {
    label: Label,
    /// The value of `DEK-Info`, in the older format.
    cipher: Option<String>,
    /// The decoded bytes, unless they are malformed.
    bytes: Option<Vec<u8>>,
}

/// Why a block cannot be decrypted with any password.
enum Fault {
    Damaged,
    /// An unsupported algorithm; its name.
    Unknown(String),
}

impl Block {
    /// Finds the first encrypted key in a text.
    fn find(text: &[u8]) -> Option<Block> {
        let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        loop {
            let line = lines.next()?;
            let Some((_, label)) = LABELS.iter().find(|(begin, _)| *begin == line) else {
                continue;
            };
            let (mut cipher, mut is_protected, mut body) =
                (None, *label == Label::Pkcs8, Vec::new());
            for line in lines
                .by_ref()
                .take_while(|line| !line.starts_with(b"-----"))
            {
                if let Some(kind) = line.strip_prefix(b"Proc-Type:") {
                    is_protected |= kind.ends_with(b"ENCRYPTED");
                } else if let Some(info) = line.strip_prefix(b"DEK-Info:") {
                    cipher = Some(String::from_utf8_lossy(info.trim_ascii()).into_owned());
                } else {
                    body.extend_from_slice(line);
                }
            }
            if is_protected {
                return Some(Block {
                    label: *label,
                    cipher,
                    bytes: STANDARD.decode(body).ok(),
                });
            }
        }
    }

    /// Parses the encryption parameters.
    fn seal(&self) -> Result<Seal, Fault> {
        let bytes = self.bytes.as_deref().ok_or(Fault::Damaged)?;
        match self.label {
            Label::Pkcs8 => of_pkcs8(bytes),
            Label::Rsa | Label::Ec => {
                let info = self.cipher.as_deref().ok_or(Fault::Damaged)?;
                let (name, iv) = info.split_once(',').ok_or(Fault::Damaged)?;
                let iv = from_hex(iv).ok_or(Fault::Damaged)?;
                let cipher = Cipher::ALL.into_iter().find(|cipher| cipher.dek() == name);
                let cipher = cipher.ok_or_else(|| Fault::Unknown(name.to_owned()))?;
                Seal::new(cipher, iv, Stretch::Md5, bytes)
            }
        }
    }
}

/// The encryption parameters of a key, and the encrypted bytes.
struct Seal {
    cipher: Cipher,
    iv: Vec<u8>,
    stretch: Stretch,
    bytes: Vec<u8>,
}

/// The key derivation function.
enum Stretch {
    /// OpenSSL's `EVP_BytesToKey`, with one iteration of MD5 and the first half of the IV as salt.
    Md5,
    /// RFC 8018, section 5.2.
    Pbkdf2 {
        algorithm: pbkdf2::Algorithm,
        salt: Vec<u8>,
        rounds: NonZeroU32,
    },
}

/// The cipher, in CBC mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
    DesEde3,
}

impl Cipher {
    const ALL: [Cipher; 4] = [
        Cipher::Aes128,
        Cipher::Aes192,
        Cipher::Aes256,
        Cipher::DesEde3,
    ];

    /// Its name in `DEK-Info`.
    fn dek(self) -> &'static str {
        match self {
            Cipher::Aes128 => "AES-128-CBC",
            Cipher::Aes192 => "AES-192-CBC",
            Cipher::Aes256 => "AES-256-CBC",
            Cipher::DesEde3 => "DES-EDE3-CBC",
        }
    }

    /// The lengths of its key and block in bytes.
    fn lengths(self) -> (usize, usize) {
        match self {
            Cipher::Aes128 => (16, 16),
            Cipher::Aes192 => (24, 16),
            Cipher::Aes256 => (32, 16),
            Cipher::DesEde3 => (24, 8),
        }
    }

    fn of(oid: &[u8]) -> Option<Cipher> {
        if oid == DES_EDE3 {
            return Some(Cipher::DesEde3);
        }
        match oid.strip_prefix(AES)? {
            [0x02] => Some(Cipher::Aes128),
            [0x16] => Some(Cipher::Aes192),
            [0x2a] => Some(Cipher::Aes256),
            _ => None,
        }
    }
}

impl Seal {
    fn new(cipher: Cipher, iv: Vec<u8>, stretch: Stretch, bytes: &[u8]) -> Result<Seal, Fault> {
        let (_, block) = cipher.lengths();
        if iv.len() != block || bytes.is_empty() || !bytes.len().is_multiple_of(block) {
            return Err(Fault::Damaged);
        }
        Ok(Seal {
            cipher,
            iv,
            stretch,
            bytes: bytes.to_vec(),
        })
    }

    /// Decrypts the bytes; `None` if the password is certainly wrong.
    fn open(&self, password: &[u8]) -> Option<Vec<u8>> {
        let (length, _) = self.cipher.lengths();
        let mut key = vec![0; length];
        match &self.stretch {
            Stretch::Md5 => stretch_by_md5(password, &self.iv[..8], &mut key),
            Stretch::Pbkdf2 {
                algorithm,
                salt,
                rounds,
            } => pbkdf2::derive(*algorithm, *rounds, salt, password, &mut key),
        }
        let by = |algorithm: &'static Algorithm| {
            let key = UnboundCipherKey::new(algorithm, &key).ok()?;
            let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
            let iv = FixedLength::<16>::try_from(self.iv.as_slice()).ok()?;
            let mut bytes = self.bytes.clone();
            let plain = key.decrypt(&mut bytes, DecryptionContext::Iv128(iv)).ok()?;
            Some(plain.to_vec())
        };
        match self.cipher {
            Cipher::Aes128 => by(&AES_128),
            Cipher::Aes192 => by(&AES_192),
            Cipher::Aes256 => by(&AES_256),
            Cipher::DesEde3 => open_des(&key, &self.iv, &self.bytes),
        }
    }
}

/// Decrypts Triple DES in CBC mode with the padding of RFC 8018, section 6.1.1.
fn open_des(key: &[u8], iv: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let cipher = TdesEde3::new_from_slice(key).ok()?;
    let mut plain = Vec::with_capacity(bytes.len());
    let mut before = iv;
    for block in bytes.chunks_exact(8) {
        let mut open = GenericArray::clone_from_slice(block);
        cipher.decrypt_block(&mut open);
        plain.extend(open.iter().zip(before).map(|(one, other)| one ^ other));
        before = block;
    }
    let padding = usize::from(*plain.last()?);
    let end = plain.len().checked_sub(padding)?;
    let is_padded = (1..=8).contains(&padding)
        && plain[end..]
            .iter()
            .all(|byte| usize::from(*byte) == padding);
    plain.truncate(end);
    is_padded.then_some(plain)
}

/// `EVP_BytesToKey`: each digest covers the previous one, the password and the salt, until there are enough bytes.
fn stretch_by_md5(password: &[u8], salt: &[u8], key: &mut [u8]) {
    let mut before: Vec<u8> = Vec::new();
    for part in key.chunks_mut(16) {
        let digest = Md5::new()
            .chain_update(&before)
            .chain_update(password)
            .chain_update(salt)
            .finalize();
        part.copy_from_slice(&digest[..part.len()]);
        before = digest.to_vec();
    }
}

/// RFC 5958, section 3, and RFC 8018, appendix A.
fn of_pkcs8(bytes: &[u8]) -> Result<Seal, Fault> {
    let read = || {
        let mut outer = Reader(Reader(bytes).take(SEQUENCE)?.content);
        let mut scheme = Reader(outer.take(SEQUENCE)?.content);
        Some((
            scheme.take(OID)?.content,
            scheme.take(SEQUENCE)?.content,
            outer.take(OCTET_STRING)?.content,
        ))
    };
    let (scheme, parameters, sealed) = read().ok_or(Fault::Damaged)?;
    if scheme != PBES2 {
        return Err(Fault::Unknown("a scheme older than PBES2".to_owned()));
    }
    let read = || {
        let mut parameters = Reader(parameters);
        let mut stretch = Reader(parameters.take(SEQUENCE)?.content);
        let mut cipher = Reader(parameters.take(SEQUENCE)?.content);
        let stretch = (stretch.take(OID)?.content, stretch.take(SEQUENCE)?.content);
        Some((
            stretch,
            cipher.take(OID)?.content,
            cipher.take(OCTET_STRING),
        ))
    };
    let ((by, how), cipher, iv) = read().ok_or(Fault::Damaged)?;
    if by != PBKDF2 {
        let name = if by == SCRYPT { "scrypt" } else { "no PBKDF2" };
        return Err(Fault::Unknown(name.to_owned()));
    }
    let cipher = Cipher::of(cipher);
    let cipher = cipher.ok_or_else(|| Fault::Unknown("a cipher other than AES".to_owned()))?;
    let iv = iv.ok_or(Fault::Damaged)?.content.to_vec();
    Seal::new(cipher, iv, of_pbkdf2(how)?, sealed)
}

/// RFC 8018, appendix A.2.
fn of_pbkdf2(parameters: &[u8]) -> Result<Stretch, Fault> {
    let mut parameters = Reader(parameters);
    let mut read = || {
        let salt = parameters.take(OCTET_STRING)?.content.to_vec();
        let rounds = parameters.take(INTEGER)?.content;
        // The key length follows from the cipher.
        parameters.take(INTEGER);
        let digest = match parameters.take(SEQUENCE) {
            Some(digest) => Reader(digest.content).take(OID)?.content.to_vec(),
            None => [HMAC, &[7]].concat(),
        };
        Some((salt, rounds, digest))
    };
    let (salt, rounds, digest) = read().ok_or(Fault::Damaged)?;
    let rounds = (rounds.len() <= 4).then(|| {
        let sum = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        rounds.iter().fold(0, sum)
    });
    let rounds = rounds.filter(|rounds| *rounds <= PBKDF2_ROUNDS_MAX);
    let rounds = rounds
        .ok_or_else(|| Fault::Unknown(format!("more than {PBKDF2_ROUNDS_MAX} rounds of PBKDF2")))?;
    let algorithm = match digest.strip_prefix(HMAC) {
        Some([7]) => pbkdf2::PBKDF2_HMAC_SHA1,
        Some([9]) => pbkdf2::PBKDF2_HMAC_SHA256,
        Some([10]) => pbkdf2::PBKDF2_HMAC_SHA384,
        Some([11]) => pbkdf2::PBKDF2_HMAC_SHA512,
        _ => return Err(Fault::Unknown("a digest other than SHA".to_owned())),
    };
    Ok(Stretch::Pbkdf2 {
        algorithm,
        salt,
        rounds: NonZeroU32::new(rounds).ok_or(Fault::Damaged)?,
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?;
        u8::try_from(value).ok()
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::tests::TempFolder;
    use crate::tests::abilities::has_openssl;
    use sluice_net::tls::der::element;

    fn passwords(folder: &TempFolder, text: &str) -> Passwords {
        let path = folder.path().join("passwords");
        fs::write(&path, text).unwrap();
        Passwords::read(&path).unwrap()
    }

    fn run(folder: &TempFolder, command: &str) -> Vec<u8> {
        let output = Command::new("openssl")
            .args(command.split_whitespace())
            .current_dir(folder.path())
            .stderr(Stdio::null())
            .output();
        let output = output.expect("OpenSSL is installed");
        assert!(output.status.success(), "openssl {command}");
        output.stdout
    }

    /// Keys encrypted by OpenSSL, in each format and with each cipher, decrypt to the original.
    #[test]
    fn openssl_encrypted_keys_are_opened_by_the_right_password() {
        if !has_openssl() {
            return;
        }
        let folder = TempFolder::new();
        let path = Path::new("a.key");
        let known = passwords(&folder, "wrong\r\n\nalso wrong\n s3cret \nlater\n");
        let wrong = passwords(&folder, "wrong\ns3cret\n");
        fs::write(folder.path().join("word"), " s3cret \n").unwrap();
        run(
            &folder,
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.key",
        );
        run(
            &folder,
            "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.key",
        );
        for kind in ["ec", "rsa"] {
            let modern = format!("pkcs8 -topk8 -in {kind}.key -outform DER -nocrypt");
            let old = format!("{kind} -traditional -in {kind}.key -outform DER");
            let old = old.replace("ec -traditional", "ec");
            let (modern, old) = (run(&folder, &modern), run(&folder, &old));
            for (plain, form) in [
                (&modern, "pkcs8 -topk8 -v2 aes256"),
                (
                    &modern,
                    "pkcs8 -topk8 -v2 aes-192-cbc -v2prf hmacWithSHA512",
                ),
                (&modern, "pkcs8 -topk8 -v2 aes-128-cbc -v2prf hmacWithSHA1"),
                (
                    &modern,
                    "pkcs8 -topk8 -v2 aes128 -iter 77 -v2prf hmacWithSHA384",
                ),
                (&modern, "pkcs8 -topk8 -v2 des3"),
                (&old, "KIND -traditional -aes256"),
                (&old, "KIND -traditional -aes192"),
                (&old, "KIND -traditional -aes128"),
                (&old, "KIND -traditional -des3"),
            ] {
                // `openssl ec` writes only the old format and has no option for it.
                let form = form.replace("KIND", kind).replace("ec -traditional", "ec");
                let sealed = run(
                    &folder,
                    &format!("{form} -in {kind}.key -passout file:word"),
                );
                assert!(is_sealed(&sealed), "{form}");
                let opened = open(&sealed, &known, path).unwrap_or_else(|e| panic!("{form}: {e}"));
                assert!(opened.secret_der() == plain, "{form}");
                let refused = open(&sealed, &wrong, path).unwrap_err();
                assert!(
                    matches!(refused, CertsError::WrongPassword { .. }),
                    "{refused}"
                );
                let refused = open(&sealed, &Passwords::default(), path).unwrap_err();
                assert!(matches!(refused, CertsError::EncryptedKey(_)), "{refused}");
            }
        }
    }

    #[test]
    fn unsupported_directives_are_refused_by_name() {
        if !has_openssl() {
            return;
        }
        let folder = TempFolder::new();
        let known = passwords(&folder, "s3cret");
        run(
            &folder,
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.key",
        );
        for (form, named) in [
            ("-scrypt", "scrypt"),
            ("-v1 PBE-SHA1-3DES", "older than PBES2"),
            ("-v2 camellia256", "a cipher other than AES"),
            (
                "-v2 aes256 -v2prf hmacWithSHA224",
                "a digest other than SHA",
            ),
        ] {
            let sealed = run(
                &folder,
                &format!("pkcs8 -topk8 {form} -in ec.key -passout pass:s3cret"),
            );
            let refused = open(&sealed, &known, Path::new("a.key"))
                .unwrap_err()
                .to_string();
            assert!(refused.contains(named), "{form}: {refused}");
        }
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES-CBC,0011223344556677\n\nAAAAAAAAAAA=\n";
        let refused = open(old.as_bytes(), &known, Path::new("a.key")).unwrap_err();
        assert!(refused.to_string().contains("DES-CBC"), "{refused}");
    }

    #[test]
    fn stretching_a_password_has_a_limit() {
        let of_rounds = |rounds: u32| {
            let rounds = rounds.to_be_bytes();
            let parts = [
                element(OCTET_STRING, &[&[1; 8]]),
                element(INTEGER, &[&rounds]),
            ];
            of_pbkdf2(&parts.concat()).is_ok()
        };
        assert!(of_rounds(PBKDF2_ROUNDS_MAX) && !of_rounds(PBKDF2_ROUNDS_MAX + 1) && !of_rounds(0));
    }

    /// Bouncy Castle makes salts as long as the digest.
    #[test]
    fn salts_may_be_longer_than_those_of_openssl() {
        for length in [8, 16, 48, 64] {
            let parts = [
                element(OCTET_STRING, &[&vec![1; length]]),
                element(INTEGER, &[&[8, 0]]),
            ];
            assert!(of_pbkdf2(&parts.concat()).is_ok(), "{length}");
        }
    }

    /// Every encrypted key, truncated anywhere or with any byte changed, gives an error or the key, and never a panic.
    #[test]
    fn damaged_keys_are_refused() {
        if !has_openssl() {
            return;
        }
        let folder = TempFolder::new();
        let known = passwords(&folder, "s3cret");
        run(
            &folder,
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.key",
        );
        for form in ["pkcs8 -topk8 -v2 aes256 -iter 1", "ec -aes128"] {
            let command = format!("{form} -in ec.key -passout pass:s3cret");
            let sealed = run(&folder, &command);
            for at in 0..sealed.len() {
                let _ = open(&sealed[..at], &known, Path::new("a.key"));
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                let _ = open(&changed, &known, Path::new("a.key"));
            }
        }
    }

    #[test]
    fn files_of_passwords_have_limits() {
        let folder = TempFolder::new();
        let path = folder.path().join("p");
        for (text, is_taken) in [
            ("a\n".repeat(PASSWORDS_MAX), true),
            ("a\n".repeat(PASSWORDS_MAX + 1), false),
            ("a".repeat(PASSWORD_BYTES_MAX), true),
            ("a".repeat(PASSWORD_BYTES_MAX + 1), false),
        ] {
            fs::write(&path, &text).unwrap();
            assert_eq!(Passwords::read(&path).is_ok(), is_taken, "{}", text.len());
        }
        let missing = Passwords::read(&folder.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("cannot read"), "{missing}");
        let shown = format!("{:?}", passwords(&folder, "s3cret"));
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
