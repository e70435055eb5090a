//! The JSON schemas of what is read and written, as published: `harness/schema/*.schema.json`, draft 7. Each has the
//! version of its format in `$id`; the program prints the ones that it was built with.

/// A format that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Schema {
    /// Scenario files, for completion in editors.
    Scenario,
    /// A line of `run`, `explore`, `replay` and `merge` with --format json.
    Report,
    /// A line of `teeth` with --format json.
    Teeth,
    /// `audit --format json`.
    Audit,
    /// `incident --format json`.
    Incident,
    /// `doctor --format json`.
    Doctor,
}

impl Schema {
    /// Every schema.
    pub const ALL: [Schema; 6] =
        [Schema::Scenario, Schema::Report, Schema::Teeth, Schema::Audit, Schema::Incident, Schema::Doctor];

    /// The schema, as JSON.
    pub fn text(self) -> &'static str {
        match self {
            Schema::Scenario => include_str!("../schema/scenario.schema.json"),
            Schema::Report => include_str!("../schema/report.schema.json"),
            Schema::Teeth => include_str!("../schema/teeth.schema.json"),
            Schema::Audit => include_str!("../schema/audit.schema.json"),
            Schema::Incident => include_str!("../schema/incident.schema.json"),
            Schema::Doctor => include_str!("../schema/doctor.schema.json"),
        }
    }
}
