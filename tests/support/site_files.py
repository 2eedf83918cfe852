"""A site's CA and certificates, made with `ckptctl tls`, for tests over real TLS.

Flow    Site(folder, ckptctl) makes the CA; issue() adds certificates; arguments() and credentials() are what ckptctl and grpcio take.
"""
import os
import pathlib
import subprocess


class Site:
    def __init__(self, folder, ckptctl, cluster="demo"):
        self.dir, self.ckptctl = pathlib.Path(folder), ckptctl
        self.run("init", "--cluster", cluster)

    def run(self, *words):
        # the environment may point ckptctl to other certificates; these commands need none
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CKPT_")}
        result = subprocess.run([str(self.ckptctl), "tls", *words, "--dir", str(self.dir), "-q"], capture_output=True, text=True,
                                env=environment)
        if result.returncode != 0:
            raise RuntimeError(f"ckptctl tls {' '.join(words)}: exit {result.returncode}: {result.stderr}")
        return result

    def issue(self, kind, name, *options, replace=False):
        self.run("issue", kind, str(name), *(["--replace"] if replace else []), *options)
        return f"{kind}-{name}"

    def audit_key(self, name):
        """A new key, in place of one that is there; its public one is added to audit.pem, where those of before stay."""
        fresh = self.dir / "audit.new"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(fresh)], check=True, capture_output=True)
        fresh.chmod(0o600)
        public = subprocess.run(["openssl", "pkey", "-in", str(fresh), "-pubout"], check=True, capture_output=True).stdout
        with open(self.audit_public, "ab") as out:
            out.write(public)
        fresh.rename(self.dir / f"audit-{name}.key")
        return public

    @property
    def audit_public(self):
        return self.dir / "audit.pem"

    @property
    def ca(self):
        return self.dir / "ca.crt"

    def cert(self, stem):
        return self.dir / f"{stem}.crt"

    def key(self, stem):
        return self.dir / f"{stem}.key"

    def arguments(self, stem):
        return ["--ca", str(self.ca), "--cert", str(self.cert(stem)), "--key", str(self.key(stem))]

    def environment(self, stem):
        return {"CKPT_CA": str(self.ca), "CKPT_CERT": str(self.cert(stem)), "CKPT_KEY": str(self.key(stem))}

    def credentials(self, stem, ca=None):
        """For grpc.secure_channel: BoringSSL, host names checked."""
        import grpc
        return grpc.ssl_channel_credentials(root_certificates=(ca or self.ca).read_bytes(), private_key=self.key(stem).read_bytes(),
                                            certificate_chain=self.cert(stem).read_bytes())
