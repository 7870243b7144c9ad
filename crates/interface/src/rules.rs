//! Rules of a transfer.

use pinnace_files::rules::{Deletion, Existing, Pattern, Rules};

use crate::values::{BYTES, FLAG, Key, Kind, Settings, Unset};

/// The rules of a transfer as set.
#[derive(Default)]
pub struct TransferRules {
    /// Those of RULE_KEYS.
    values: Settings,
    pub filter: Vec<Pattern>,
}

/// Rules being put together. `deletion` is collected here because several options set it.
#[derive(Default)]
struct Draft {
    rules: Rules,
    deletes: bool,
    deletion: Deletion,
}

impl Draft {
    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Draft {
        change(&mut self.rules);
        self
    }
}

const EXISTING: [(&str, Existing); 3] =
    [("different", Existing::Different), ("not_newer", Existing::NotNewer), ("nothing", Existing::Nothing)];

/// All options, one per entry.
const RULE_KEYS: &[Key<Draft>] = &[
    Key("existing", Kind::OneOf(&[EXISTING[0].0, EXISTING[1].0, EXISTING[2].0]), |plan, value| {
        plan.with(|rules| rules.existing = EXISTING[value.number() as usize].1)
    }),
    Key("checksum", FLAG, |plan, value| plan.with(|rules| rules.checksum = value.number() > 0)),
    Key("whole_files", FLAG, |plan, value| plan.with(|rules| rules.whole_files = value.number() > 0)),
    Key("deletion", FLAG, |plan, value| Draft { deletes: value.number() > 0, ..plan }),
    Key("deletion_most", BYTES, |plan, value| {
        let deletion = Deletion { most: Some(value.number()), ..plan.deletion };
        Draft { deletion, ..plan }
    }),
    Key("deletion_force", FLAG, |plan, value| {
        let deletion = Deletion { force: value.number() > 0, ..plan.deletion };
        Draft { deletion, ..plan }
    }),
    Key("compress", FLAG, |plan, value| plan.with(|rules| rules.compress = value.number() > 0)),
    Key("sparse", FLAG, |plan, value| plan.with(|rules| rules.sparse = value.number() > 0)),
    Key("hard_links", FLAG, |plan, value| plan.with(|rules| rules.hard_links = value.number() > 0)),
    Key("owner", FLAG, |plan, value| plan.with(|rules| rules.owner = value.number() > 0)),
    Key("xattrs", FLAG, |plan, value| plan.with(|rules| rules.xattrs = value.number() > 0)),
    Key("fsync", FLAG, |plan, value| plan.with(|rules| rules.fsync = value.number() > 0)),
    Key("dry_run", FLAG, |plan, value| plan.with(|rules| rules.dry_run = value.number() > 0)),
];

impl TransferRules {
    /// Sets one rule, given as text.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unset> {
        self.values.set(RULE_KEYS, key, value)
    }

    pub fn rules(&self) -> Rules {
        let Draft { rules, deletes, deletion } = self.values.apply(RULE_KEYS, Draft::default());
        Rules { filter: self.filter.clone(), deletion: deletes.then_some(deletion), ..rules }
    }
}
