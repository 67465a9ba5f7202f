//! Verifies tokens and signs new ones.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};

use super::cache::{Digest, VerifiedToken, VerifiedTokens, digest};
use super::claims::{Audience, ClaimRequirements, Claims, Payload, Period, Scope};
use super::jwks::{self, Verifier};
use super::login::{BrowserLogin, LoginKey};
use super::{BadToken, KeyringError, TokenError, secret};
use crate::engine::{SessionId, Text};

/// The longest token, in bytes. A longer one is refused before it is parsed.
pub const TOKEN_MAX: usize = 8 * 1024;

/// The sources of a keyring: a secret, a JWKS, or both.
#[derive(Clone, Default)]
pub struct KeyringConfig {
    /// The HS256 secret itself. It does not change while the server runs.
    pub secret: Option<Vec<u8>>,
    /// A file with the HS256 secret. It is created if it is missing, and read again on reload.
    pub secret_file: Option<PathBuf>,
    /// A file with public keys, read again on reload.
    pub jwks_file: Option<PathBuf>,
    /// The only `iss` that is accepted.
    pub issuer: Option<String>,
    /// The name that `aud` must contain.
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

/// The claims of a token to be signed.
#[derive(Debug, Clone, Default)]
pub struct NewToken {
    /// `sub`: the session id in scope `session`, unless `session` is set.
    pub subject: Text,
    /// `sid`: the session, if it is not the subject.
    pub session: Option<SessionId>,
    pub scope: Scope,
    /// The only repository that it is for.
    pub repo: Option<Text>,
    /// The display name of the session.
    pub name: Option<Text>,
    /// The feature that the session works on.
    pub feature: Option<Text>,
    /// What the ids of a worker's sessions must begin with.
    pub prefix: Option<Text>,
    /// The address of the server, where clients send the token.
    pub url: Option<Text>,
    /// In seconds since 1970.
    pub issued: i64,
    /// When within that second, in milliseconds: a token opens a session again that ended just before.
    pub issued_millis: u16,
    /// In seconds since 1970.
    pub expires: i64,
}

impl NewToken {
    /// A token of a worker for one session. The first worker to use a session owns it, so the server refuses this token if
    /// a session with this id exists already, and every token of another subject from then on. An invalid id is left out.
    pub fn owning_session(mut self, id: &str) -> NewToken {
        self.scope = Scope::Worker;
        self.session = SessionId::parse(id);
        self
    }

    /// `iat`: a whole number, or a fraction.
    fn iat(&self) -> serde_json::Number {
        let fraction = f64::from(self.issued_millis) / 1000.0;
        let whole = serde_json::Number::from(self.issued);
        if self.issued_millis == 0 {
            whole
        } else {
            serde_json::Number::from_f64(self.issued as f64 + fraction).unwrap_or(whole)
        }
    }
}

/// The keys that verify tokens. Many threads can use it at the same time; a reload replaces all keys in one step.
pub struct Keyring {
    current: ArcSwap<Generation>,
    /// Held during a reload, so that an older version of the files never replaces a newer one.
    reloading: Mutex<()>,
    /// Random bytes of this process, which sign logins if there is no secret.
    random: [u8; 32],
}

/// The keys that were loaded together, with a cache of the tokens that they verified. A new generation begins with an empty
/// cache, so a token that only an older key verified is refused.
struct Generation {
    config: KeyringConfig,
    required: ClaimRequirements,
    /// The digest of the files that this was made from.
    fingerprint: Digest,
    secret: Option<Secret>,
    public: Vec<Verifier>,
    login: LoginKey,
    verified: VerifiedTokens,
}

struct Secret {
    /// What tokens name as their server.
    server_id: String,
    sign: EncodingKey,
    verify: Verifier,
}

/// The files as they were read.
struct Sources {
    secret: Option<Vec<u8>>,
    jwks: Option<Vec<u8>>,
}

impl Keyring {
    /// Reads the files. Creates the secret file if it is configured and missing.
    pub fn new(config: KeyringConfig) -> Result<Keyring, KeyringError> {
        let mut random = [0; 32];
        aws_lc_rs::rand::fill(&mut random)
            .map_err(|_| KeyringError("this machine gives no random bytes, which keys need".to_owned()))?;
        let generation = Generation::first(config, &random)?;
        Ok(Keyring { current: ArcSwap::from_pointee(generation), reloading: Mutex::new(()), random })
    }

    /// Replaces the configuration. On an error nothing changes.
    pub fn reconfigure(&self, config: KeyringConfig) -> Result<(), KeyringError> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.current.store(Arc::new(Generation::first(config, &self.random)?));
        Ok(())
    }

    /// The claims of a token, if it is valid at `now` (seconds since 1970).
    pub fn verify(&self, bearer: &str, now: i64) -> Result<Claims, BadToken> {
        Ok(self.examine(bearer, now)?)
    }

    /// Reads the files again and returns whether they changed. On an error nothing changes.
    pub fn reload(&self) -> Result<bool, KeyringError> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load();
        let sources = Sources::read(&current.config, secret::read)?;
        // Compares the contents, not the modification time, which would miss a second change within its resolution.
        if sources.fingerprint() == current.fingerprint {
            return Ok(false);
        }
        let generation = Generation::new(&sources, current.config.clone(), &self.random)?;
        self.current.store(Arc::new(generation));
        Ok(true)
    }

    /// Signs a token with the secret. This keyring accepts it.
    pub fn sign(&self, token: &NewToken) -> Result<String, KeyringError> {
        let generation = self.current.load();
        let Some(secret) = &generation.secret else {
            return Err(KeyringError("cannot sign a token: no secret is configured".to_owned()));
        };
        let payload = || Payload {
            iss: generation.config.issuer.clone(),
            aud: generation.config.audience.clone().map(Audience::One),
            sub: Some(token.subject.to_string()),
            sid: token.session.as_ref().map(SessionId::to_string),
            scope: Some(token.scope),
            repo: token.repo.as_deref().map(str::to_owned),
            name: token.name.as_deref().map(str::to_owned),
            feature: token.feature.as_deref().map(str::to_owned),
            prefix: token.prefix.as_deref().map(Into::into),
            url: token.url.as_deref().map(str::to_owned),
            srv: Some(secret.server_id.clone()),
            iat: Some(token.iat()),
            nbf: None,
            exp: Some(token.expires.into()),
        };
        let failed = |error: TokenError| KeyringError(format!("cannot sign such a token: {error}"));
        let (_, period) = payload().check(&generation.required).map_err(failed)?;
        period.check(token.issued).map_err(failed)?;
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &payload(), &secret.sign)
            .map_err(|_| KeyringError("cannot sign a token with this secret; configure another one".to_owned()))
    }

    /// The id of the server that tokens signed here name; none without a secret.
    pub fn server_id(&self) -> Option<String> {
        self.current.load().secret.as_ref().map(|secret| secret.server_id.clone())
    }

    /// Signs the login of a browser; the text is its cookie.
    pub fn sign_login(&self, login: &BrowserLogin) -> Result<String, KeyringError> {
        self.current.load().login.sign(login)
    }

    /// The login of a browser, if it is valid at `now` (seconds since 1970).
    pub fn verify_login(&self, cookie: &str, now: i64) -> Result<BrowserLogin, BadToken> {
        self.current.load().login.verify(cookie, now)
    }

    /// What the cookies of this server are called after. Another server, or other keys, have another name.
    pub fn login_name(&self) -> String {
        self.current.load().login.name().to_owned()
    }

    /// [`Keyring::verify`] with the reason, for tests.
    pub(super) fn examine(&self, bearer: &str, now: i64) -> Result<Claims, TokenError> {
        if bearer.len() > TOKEN_MAX {
            return Err(TokenError::TooLong);
        }
        let generation = self.current.load();
        let digest = digest(bearer.as_bytes());
        if let Some(verified) = generation.verified.get(&digest) {
            verified.period.check(now)?;
            return Ok(verified.claims.clone());
        }
        let (claims, period) = generation.open(bearer)?;
        period.check(now)?;
        generation.verified.put(VerifiedToken { digest, period, claims: claims.clone() });
        Ok(claims)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("config", &self.current.load().config).finish_non_exhaustive()
    }
}

impl Generation {
    /// Reads the files. Creates the secret file if it is configured and missing.
    fn first(config: KeyringConfig, random: &[u8; 32]) -> Result<Generation, KeyringError> {
        if config.secret.is_some() && config.secret_file.is_some() {
            return Err(KeyringError(
                "both a secret and a secret file are configured; configure only one of them".to_owned(),
            ));
        }
        if config.secret.is_none() && config.secret_file.is_none() && config.jwks_file.is_none() {
            return Err(KeyringError(
                "there is nothing to verify tokens with; configure a secret or a JWKS file".to_owned(),
            ));
        }
        let sources = Sources::read(&config, secret::secret_file)?;
        Generation::new(&sources, config, random)
    }

    fn new(sources: &Sources, config: KeyringConfig, random: &[u8; 32]) -> Result<Generation, KeyringError> {
        let secret = sources.secret.as_ref().map(|secret| Secret {
            server_id: secret::server_id(secret),
            sign: EncodingKey::from_secret(secret),
            verify: Verifier { kid: None, algorithm: Algorithm::HS256, key: DecodingKey::from_secret(secret) },
        });
        let public = match (&sources.jwks, config.jwks_file.as_deref()) {
            (Some(bytes), Some(path)) => jwks::parse(bytes, path)?,
            _ => Vec::new(),
        };
        let required = ClaimRequirements { issuer: config.issuer.clone(), audience: config.audience.clone() };
        let fingerprint = sources.fingerprint();
        let login = LoginKey::new(sources.secret.as_deref().unwrap_or(random), &fingerprint);
        Ok(Generation { config, required, fingerprint, secret, public, login, verified: VerifiedTokens::new() })
    }

    /// Checks everything but the time. Header members that contain or point to a key (`jwk`, `jku`, `x5c`, `x5u`) are
    /// ignored: a token can only choose one of our keys.
    fn open(&self, bearer: &str) -> Result<(Claims, Period), TokenError> {
        let header = jsonwebtoken::decode_header(bearer).map_err(|_| TokenError::Unreadable)?;
        if header.crit.is_some() {
            return Err(TokenError::Critical);
        }
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(TokenError::Type);
        }
        let verifier = self.verifier(header.kid.as_deref()).ok_or(TokenError::UnknownKid)?;
        if header.alg != verifier.algorithm {
            return Err(TokenError::Algorithm);
        }

        // The library verifies only the signature. Its other checks would read a clock, and accept fractions of a second
        // and a list of issuers.
        let mut only_signature = Validation::new(verifier.algorithm);
        only_signature.required_spec_claims.clear();
        only_signature.validate_exp = false;
        only_signature.validate_nbf = false;
        only_signature.validate_aud = false;
        let token = jsonwebtoken::decode::<Payload>(bearer, &verifier.key, &only_signature);
        let token = token.map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => TokenError::Signature,
            _ => TokenError::Unreadable,
        })?;
        token.claims.check(&self.required)
    }

    /// The key with this `kid`. Without a `kid`, the secret or the only public key.
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

    /// A digest, so that no secret is kept or compared.
    fn fingerprint(&self) -> Digest {
        let part = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or([0; 32], |bytes| digest(bytes));
        digest(&[part(&self.secret), part(&self.jwks)].concat())
    }
}

/// `JWT`, or `at+jwt` (RFC 9068). Any other type was made for another purpose.
fn is_access_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}
