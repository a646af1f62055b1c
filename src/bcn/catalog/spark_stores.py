"""Object stores as Spark reaches them: pyiceberg's property names in Iceberg's and Hadoop's own."""

from __future__ import annotations

from collections.abc import Mapping

# Per scheme, as Iceberg's ResolvingFileIO tells them apart: it opens each file by its own scheme.
RESOLVING = "org.apache.iceberg.io.ResolvingFileIO"
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_ANONYMOUS_SDK = "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
_S3_SCHEMES = ("s3", "s3a", "s3n")
_REGION = "us-east-1"
_KEYS = ("access-key-id", "secret-access-key", "session-token")
_PROFILE = "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"
_GCS = (
    *("gcs.project-id", "gcs.user-project", "gcs.service.host", "gcs.no-auth"),
    *("gcs.oauth2.token", "gcs.oauth2.token-expires-at"),
)
_ADLS = {
    "adls.account-name": "adls.auth.shared-key.account.name",
    "adls.account-key": "adls.auth.shared-key.account.key",
    "adls.token": "adls.token",
}


def scheme_of(location: str) -> str:
    """The scheme of a location in lower case; empty for a local path."""
    scheme, mark, _rest = location.partition("://")
    return scheme.lower() if mark else ""


def is_remote(location: str) -> bool:
    """Whether a location is on an object store."""
    return scheme_of(location) not in {"", "file"}


def uses_s3(properties: Mapping[str, str]) -> bool:
    """Whether tables may be on S3: by the warehouse, else by what else is there."""
    scheme = scheme_of(properties.get("warehouse", ""))
    return scheme in _S3_SCHEMES or any(key.startswith("s3.") for key in properties)


def file_io(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties of a catalog by which Iceberg's own file access finds the stores."""
    found: dict[str, str] = {}
    if uses_s3(properties):
        found |= _s3(properties)
    found |= {key: properties[key] for key in _GCS if key in properties}
    found |= {_ADLS[key]: value for key, value in properties.items() if key in _ADLS}
    found |= {
        key: value
        for key, value in properties.items()
        if key.startswith(("adls.sas-token.", "adls.connection-string."))
    }
    if found or is_remote(properties.get("warehouse", "")):
        found["io-impl"] = RESOLVING
    return found


def _s3(properties: Mapping[str, str]) -> dict[str, str]:
    found = {
        "s3.endpoint": _endpoint(properties),
        "client.region": _region(properties),
        "s3.path-style-access": _path_style(properties),
        **{f"s3.{key}": find_aws(properties, key) for key in _KEYS},
    }
    if find_aws(properties, "anonymous").lower() == "true":
        found["client.credentials-provider"] = _ANONYMOUS_SDK
    return {key: value for key, value in found.items() if value}


def hadoop_s3(properties: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings for a catalog that is nothing but files."""
    if not uses_s3(properties):
        return {}
    found = {
        "fs.s3.impl": _S3A,
        "fs.s3n.impl": _S3A,
        "fs.s3a.endpoint": _endpoint(properties),
        "fs.s3a.endpoint.region": _region(properties),
        "fs.s3a.path.style.access": _path_style(properties),
        "fs.s3a.access.key": find_aws(properties, "access-key-id"),
        "fs.s3a.secret.key": find_aws(properties, "secret-access-key"),
        "fs.s3a.session.token": find_aws(properties, "session-token"),
    }
    if find_aws(properties, "anonymous").lower() == "true":
        found["fs.s3a.aws.credentials.provider"] = _ANONYMOUS
    elif not found["fs.s3a.access.key"] and find_aws(properties, "profile-name"):
        found["fs.s3a.aws.credentials.provider"] = _PROFILE
    return {key: value for key, value in found.items() if value}


def environment(properties: Mapping[str, str]) -> dict[str, str]:
    """Variables by which the clouds' own libraries find what no setting of Iceberg names."""
    return {
        "AWS_PROFILE": find_aws(properties, "profile-name"),
        "AZURE_TENANT_ID": properties.get("adls.tenant-id", ""),
        "AZURE_CLIENT_ID": properties.get("adls.client-id", ""),
        "AZURE_CLIENT_SECRET": properties.get("adls.client-secret", ""),
    }


def find_aws(properties: Mapping[str, str], name: str, service: str = "s3") -> str:
    """A property of one service, else the one for all of AWS; empty if there is none."""
    found = properties.get(f"{service}.{name}") or properties.get(f"client.{name}") or ""
    return found.strip()


def _endpoint(properties: Mapping[str, str]) -> str:
    endpoint = properties.get("s3.endpoint", "").strip()
    return endpoint if "://" in endpoint or not endpoint else f"http://{endpoint}"


def _region(properties: Mapping[str, str]) -> str:
    """Signatures name one, also where a service has none; that is the one which bcn takes, too."""
    return find_aws(properties, "region") or (_REGION if properties.get("s3.endpoint") else "")


def _path_style(properties: Mapping[str, str]) -> str:
    """As our own S3 has it: path style at other endpoints than AWS's, unless told otherwise."""
    asked = find_aws(properties, "path-style-access").lower()
    if asked:
        return asked
    virtual = find_aws(properties, "force-virtual-addressing").lower() == "true"
    return "true" if properties.get("s3.endpoint") and not virtual else ""
