//! Makes the CA of a NATS cluster and the certificate of its servers.
//!
//! The CA is made once; the servers' certificate whenever the list of servers changes. All servers share it: it names each of them.

use std::path::Path;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::files::{self, Readers};

const CA: &str = "ca.pem";
const CA_KEY: &str = "ca.key";
const SERVER: &str = "server.pem";
const SERVER_KEY: &str = "server.key";
/// Which hosts the certificate names.
const HOSTS: &str = "server.hosts";

/// Writes what is missing. `hosts`: of the servers, besides this machine.
pub fn write(out: &Path, hosts: &[String]) -> anyhow::Result<()> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.extend(hosts.iter().cloned());
    let listed = format!("{}\n", names.join("\n"));
    let is_current =
        files::read(&out.join(SERVER))?.is_some() && files::read(&out.join(HOSTS))?.as_ref() == Some(&listed);
    if is_current {
        return Ok(());
    }
    let issuer = authority(out)?;
    let key = KeyPair::generate().context("cannot make a key")?;
    let mut params = CertificateParams::new(names).context("the hosts of the servers")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Grid NATS servers");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let certificate = params.signed_by(&key, &issuer).context("cannot sign the servers' certificate")?;
    files::write(&out.join(SERVER_KEY), Readers::Owner, &key.serialize_pem())?;
    files::write(&out.join(SERVER), Readers::Everyone, &certificate.pem())?;
    files::write(&out.join(HOSTS), Readers::Everyone, &listed)
}

/// Its certificate is not read again: everything in it but the key is the same every time.
fn authority(out: &Path) -> anyhow::Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Grid NATS CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let (certificate, key) = (files::read(&out.join(CA))?, files::read(&out.join(CA_KEY))?);
    if let (Some(_), Some(key)) = (certificate, key) {
        let key = KeyPair::from_pem(&key).with_context(|| format!("{} is damaged", out.join(CA_KEY).display()))?;
        return Ok(Issuer::new(params, key));
    }
    let key = KeyPair::generate().context("cannot make a key")?;
    let certificate = params.self_signed(&key).context("cannot make the CA")?;
    files::write(&out.join(CA_KEY), Readers::Owner, &key.serialize_pem())?;
    files::write(&out.join(CA), Readers::Everyone, &certificate.pem())?;
    Ok(Issuer::new(params, key))
}
