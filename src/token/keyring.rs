//! What verifies tokens, and what makes them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};

use super::cache::{Cache, Digest, Verified, digest};
use super::claims::{Audience, Claims, Demands, Payload, Period, Scope};
use super::jwks::{self, Verifier};
use super::{BadToken, Flaw, KeyringError, secret};
use crate::engine::{SessionId, Text};

/// The longest token, in bytes; nothing longer is even looked at.
pub const TOKEN_MAX: usize = 8 * 1024;

/// Where the keyring comes from. At least one of a secret and a JWKS is needed.
#[derive(Clone, Default)]
pub struct KeyringConfig {
    /// The HS256 secret itself; does not change while the server runs.
    pub secret: Option<Vec<u8>>,
    /// A file with the HS256 secret instead, made where there is none and read again on reload.
    pub secret_file: Option<PathBuf>,
    /// A file with public keys, read again on reload.
    pub jwks_file: Option<PathBuf>,
    /// The only `iss` accepted.
    pub issuer: Option<String>,
    /// The name that must be among `aud`.
    pub audience: Option<String>,
}

impl fmt::Debug for KeyringConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyringConfig")
            .field("secret", &self.secret.as_ref().map(|_| "hidden"))
            .field("secret_file", &self.secret_file)
            .field("jwks_file", &self.jwks_file)
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .finish()
    }
}

/// A token to be made.
#[derive(Debug, Clone, Default)]
pub struct Mint {
    /// For whom: the session's id in scope `session`, unless `session` says otherwise.
    pub subject: Text,
    /// The session, where it is not the subject (`sid`).
    pub session: Option<SessionId>,
    /// What it may do.
    pub scope: Scope,
    /// The only repository it is for.
    pub repo: Option<Text>,
    /// A display name for the session.
    pub name: Option<Text>,
    /// The feature the session works on.
    pub feature: Option<Text>,
    /// When it is made, in seconds since 1970.
    pub issued: i64,
    /// When it ends, in seconds since 1970.
    pub expires: i64,
}

/// What verifies tokens. Cheap to ask from many threads at once; rotation replaces everything in one step.
pub struct Keyring {
    current: ArcSwap<Generation>,
    /// Held while reloading, so that an older reading of the files never replaces a newer one.
    reloading: Mutex<()>,
}

/// Everything that was read together, and the tokens it has found good: a token verified by an older generation is
/// never taken from the cache of a newer one.
struct Generation {
    config: KeyringConfig,
    demands: Demands,
    /// Of the files this was made from.
    fingerprint: Digest,
    secret: Option<Secret>,
    public: Vec<Verifier>,
    verified: Cache,
}

struct Secret {
    sign: EncodingKey,
    verify: Verifier,
}

/// The files as they were read.
struct Sources {
    secret: Option<Vec<u8>>,
    jwks: Option<Vec<u8>>,
}

impl Keyring {
    /// Reads the files, and makes the secret file where it is named and missing.
    pub fn new(config: KeyringConfig) -> Result<Keyring, KeyringError> {
        let generation = Generation::first(config)?;
        Ok(Keyring { current: ArcSwap::from_pointee(generation), reloading: Mutex::new(()) })
    }

    /// Takes everything from elsewhere from now on; where that does not work, everything stays as it was.
    pub fn reconfigure(&self, config: KeyringConfig) -> Result<(), KeyringError> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.current.store(Arc::new(Generation::first(config)?));
        Ok(())
    }

    /// What a token says, if it is good at `now` (seconds since 1970).
    pub fn verify(&self, bearer: &str, now: i64) -> Result<Claims, BadToken> {
        Ok(self.examine(bearer, now)?)
    }

    /// Reads the files again. Says whether anything changed; where a file is broken, everything stays as it was.
    pub fn reload(&self) -> Result<bool, KeyringError> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load();
        let sources = Sources::read(&current.config, secret::read)?;
        // The contents decide, not the modification time: a second rewrite within its resolution would be missed.
        if sources.fingerprint() == current.fingerprint {
            return Ok(false);
        }
        let generation = Generation::new(&sources, current.config.clone())?;
        self.current.store(Arc::new(generation));
        Ok(true)
    }

    /// Makes a token this keyring accepts, signed with the secret.
    pub fn mint(&self, mint: &Mint) -> Result<String, KeyringError> {
        let generation = self.current.load();
        let Some(secret) = &generation.secret else {
            return Err(KeyringError("cannot make a token without a secret; give the server one".to_owned()));
        };
        let payload = || Payload {
            iss: generation.config.issuer.clone(),
            aud: generation.config.audience.clone().map(Audience::One),
            sub: Some(mint.subject.to_string()),
            sid: mint.session.as_ref().map(SessionId::to_string),
            scope: Some(mint.scope),
            repo: mint.repo.as_deref().map(str::to_owned),
            name: mint.name.as_deref().map(str::to_owned),
            feature: mint.feature.as_deref().map(str::to_owned),
            iat: Some(mint.issued.into()),
            nbf: None,
            exp: Some(mint.expires),
        };
        let refused = |flaw: Flaw| KeyringError(format!("cannot make such a token: {flaw}"));
        let (_, period) = payload().check(&generation.demands).map_err(refused)?;
        period.check(mint.issued).map_err(refused)?;
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &payload(), &secret.sign)
            .map_err(|_| KeyringError("cannot sign a token with this secret; give the server another one".to_owned()))
    }

    /// [`Keyring::verify`] with the reason, for tests.
    pub(super) fn examine(&self, bearer: &str, now: i64) -> Result<Claims, Flaw> {
        if bearer.len() > TOKEN_MAX {
            return Err(Flaw::TooLong);
        }
        let generation = self.current.load();
        let digest = digest(bearer.as_bytes());
        if let Some(verified) = generation.verified.get(&digest) {
            verified.period.check(now)?;
            return Ok(verified.claims.clone());
        }
        let (claims, period) = generation.open(bearer)?;
        period.check(now)?;
        generation.verified.put(Verified { digest, period, claims: claims.clone() });
        Ok(claims)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("config", &self.current.load().config).finish_non_exhaustive()
    }
}

impl Generation {
    /// Reads the files, and makes the secret file where it is named and missing.
    fn first(config: KeyringConfig) -> Result<Generation, KeyringError> {
        if config.secret.is_some() && config.secret_file.is_some() {
            return Err(KeyringError("a secret and a secret file are both given; give only one of them".to_owned()));
        }
        if config.secret.is_none() && config.secret_file.is_none() && config.jwks_file.is_none() {
            return Err(KeyringError("nothing to verify tokens with: give a secret or a JWKS file".to_owned()));
        }
        let sources = Sources::read(&config, secret::secret_file)?;
        Generation::new(&sources, config)
    }

    fn new(sources: &Sources, config: KeyringConfig) -> Result<Generation, KeyringError> {
        let secret = sources.secret.as_ref().map(|secret| Secret {
            sign: EncodingKey::from_secret(secret),
            verify: Verifier { kid: None, algorithm: Algorithm::HS256, key: DecodingKey::from_secret(secret) },
        });
        let public = match (&sources.jwks, config.jwks_file.as_deref()) {
            (Some(bytes), Some(path)) => jwks::parse(bytes, path)?,
            _ => Vec::new(),
        };
        let demands = Demands { issuer: config.issuer.clone(), audience: config.audience.clone() };
        let fingerprint = sources.fingerprint();
        Ok(Generation { config, demands, fingerprint, secret, public, verified: Cache::new() })
    }

    /// Everything but the time. Header members that carry or point to a key (`jwk`, `jku`, `x5c`, `x5u`) are never
    /// looked at: the token does not get to say what verifies it, only which of ours.
    fn open(&self, bearer: &str) -> Result<(Claims, Period), Flaw> {
        let header = jsonwebtoken::decode_header(bearer).map_err(|_| Flaw::Unreadable)?;
        if header.crit.is_some() {
            return Err(Flaw::Critical);
        }
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(Flaw::Type);
        }
        let verifier = self.verifier(header.kid.as_deref()).ok_or(Flaw::UnknownKid)?;
        if header.alg != verifier.algorithm {
            return Err(Flaw::Algorithm);
        }

        // The library is asked for the signature only: it would take the time from a clock, fractions of a second for
        // an expiry, and an issuer that is a list.
        let mut only_signature = Validation::new(verifier.algorithm);
        only_signature.required_spec_claims.clear();
        only_signature.validate_exp = false;
        only_signature.validate_nbf = false;
        only_signature.validate_aud = false;
        let token = jsonwebtoken::decode::<Payload>(bearer, &verifier.key, &only_signature);
        let token = token.map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => Flaw::Signature,
            _ => Flaw::Unreadable,
        })?;
        token.claims.check(&self.demands)
    }

    /// Chosen by `kid`. Without one it is the secret, or the only public key there is.
    fn verifier(&self, kid: Option<&str>) -> Option<&Verifier> {
        match (kid, &self.secret, self.public.as_slice()) {
            (Some(kid), _, public) => public.iter().find(|verifier| verifier.kid.as_deref() == Some(kid)),
            (None, Some(secret), _) => Some(&secret.verify),
            (None, None, [only]) => Some(only),
            (None, None, _) => None,
        }
    }
}

impl Sources {
    fn read(
        config: &KeyringConfig,
        read_secret: fn(&Path) -> Result<Vec<u8>, KeyringError>,
    ) -> Result<Sources, KeyringError> {
        let secret = match (&config.secret, &config.secret_file) {
            (Some(secret), _) => Some(secret.clone()),
            (None, Some(path)) => Some(read_secret(path)?),
            (None, None) => None,
        };
        if let Some(secret) = &secret {
            secret::check_length(secret)?;
        }
        let jwks = config.jwks_file.as_deref().map(jwks::read).transpose()?;
        Ok(Sources { secret, jwks })
    }

    /// Digests stand in for the contents, so that no secret is kept or compared.
    fn fingerprint(&self) -> Digest {
        let part = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or([0; 32], |bytes| digest(bytes));
        digest(&[part(&self.secret), part(&self.jwks)].concat())
    }
}

/// `JWT`, or `at+jwt` as RFC 9068 wants it; anything else was made for another purpose.
fn is_access_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}
