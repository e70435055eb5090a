//! What a file system promises across a power cut.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which promises of the file system are relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskModel {
    /// Only what POSIX promises: see [`strict`](crate::fault::power_cut::strict).
    #[default]
    Strict,
    /// Linux ext4 with its defaults: see [`ext4`](crate::fault::power_cut::ext4).
    Ext4Ordered,
}

impl DiskModel {
    /// Every model.
    pub const ALL: [DiskModel; 2] = [DiskModel::Strict, DiskModel::Ext4Ordered];

    /// The name in scenarios and reports.
    pub fn name(self) -> &'static str {
        match self {
            DiskModel::Strict => "strict",
            DiskModel::Ext4Ordered => "ext4-ordered",
        }
    }
}

impl fmt::Display for DiskModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
