//! Tells local file systems from those of the network.
//!
//! On the latter `flock` may be nobody's or everybody's, and SQLite's log needs memory shared by all its users.

use std::io;
use std::os::fd::AsFd;

/// The name of the network file system that `directory` is on, `None` for a local one.
#[cfg(target_os = "linux")]
pub(super) fn network(directory: impl AsFd) -> io::Result<Option<String>> {
    let magic = rustix::fs::fstatfs(&directory)?.f_type as u64 & 0xffff_ffff;
    if magic == FUSE {
        // Every FUSE file system has the same number; its name is in the table of mounts.
        let device = rustix::fs::fstat(&directory)?.st_dev;
        let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        return Ok(kind(&mounts, &device).filter(|kind| remote_fuse(kind)).map(str::to_owned));
    }
    Ok(NETWORK.iter().find(|(number, _)| *number == magic).map(|(_, name)| (*name).to_owned()))
}

/// `FUSE_SUPER_MAGIC` in statfs(2).
#[cfg(target_os = "linux")]
const FUSE: u64 = 0x6573_5546;

/// From statfs(2) and the kernel's `linux/magic.h`.
#[cfg(target_os = "linux")]
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xfe53_4d42, "smb2"),
    (0xff53_4d42, "cifs"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "kafs"),
    (0x7375_7245, "coda"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x564c, "ncp"),
];

/// The type of the mount on a device, from proc_pid_mountinfo(5): the field after the lone dash.
#[cfg(target_os = "linux")]
fn kind<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        (fields.nth(2) == Some(device)).then(|| fields.skip_while(|field| *field != "-").nth(1)).flatten()
    })
}

/// FUSE file systems whose files lie elsewhere. A local one (encrypted folders, NTFS) is fine.
#[cfg(target_os = "linux")]
fn remote_fuse(kind: &str) -> bool {
    const REMOTE: &[&str] = &[
        "sshfs",
        "rclone",
        "s3fs",
        "gcsfuse",
        "glusterfs",
        "ceph",
        "ceph-fuse",
        "curlftpfs",
        "davfs",
        "davfs2",
        "smbnetfs",
        "juicefs",
        "gvfsd-fuse",
        "mergerfs-nfs",
        "blobfuse",
        "blobfuse2",
        "mount-s3",
        "moosefs",
    ];
    kind.strip_prefix("fuse.").is_some_and(|name| REMOTE.contains(&name.to_ascii_lowercase().as_str()))
}

/// The name of the network file system that `directory` is on, `None` for a local one.
///
/// `MNT_LOCAL` in statfs(2) says that the file system is stored locally.
#[cfg(target_os = "macos")]
pub(super) fn network(directory: impl AsFd) -> io::Result<Option<String>> {
    let about = rustix::fs::fstatfs(&directory)?;
    if about.f_flags & libc::MNT_LOCAL as u32 != 0 {
        return Ok(None);
    }
    let name = about.f_fstypename.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    Ok(Some(String::from_utf8(name).unwrap_or_else(|_| "remote".to_owned())))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        40 22 0:44 / /mnt/far rw,nosuid shared:9 master:2 - fuse.sshfs me@far: rw,user_id=1000\n\
        41 22 0:45 / /mnt/safe rw - fuse.gocryptfs /cipher rw\n\
        42 22 0:46 / /lima rw - virtiofs mount0 rw\n";

    #[track_caller]
    fn check(device: &str, remote: Option<&str>) {
        assert_eq!(kind(MOUNTS, device).filter(|kind| remote_fuse(kind)), remote);
    }

    #[test]
    fn a_fuse_mount_is_remote_by_its_name() {
        check("0:44", Some("fuse.sshfs"));
        check("0:45", None);
        check("0:46", None);
        check("0:47", None);
        assert_eq!(kind(MOUNTS, "254:0"), Some("ext4"));
    }

    #[test]
    fn where_this_runs_is_local() {
        let here = std::fs::File::open(std::env::temp_dir()).expect("a directory");
        assert_eq!(network(here).expect("it can be asked"), None);
    }
}
