//! Random changes of the tools of two organizations, beside a model that says what each must do and what is left afterwards.

use std::collections::BTreeMap;

use proptest::prelude::{Strategy, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;
use tw_core::change::{Change, ChangeGroup, Outcome, SaveTool, ToolRoom};
use tw_core::id::{OrgId, ToolId, ToolVersionKey};
use tw_store::apply::StoreApplyError;
use tw_store::store::Store;

use crate::world::{StoreWorld, at, create_organization, revision, tool_id};

const NAMES: [&str; 3] = ["mail", "post", "Mail"];

#[derive(Clone, Debug)]
struct Step {
    is_stranger: bool,
    tool: u128,
    op: Op,
}

#[derive(Clone, Debug)]
enum Op {
    Save { name: usize, follows: u32 },
    Delete,
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        4 => (0..NAMES.len(), 0..4u32).prop_map(|(name, follows)| Op::Save { name, follows }),
        1 => proptest::strategy::Just(Op::Delete),
    ];
    (0..4u8, 0..4u128, op).prop_map(|(organization, tool, op)| Step {
        // Mostly the first, so that versions pile up.
        is_stranger: organization == 0,
        tool,
        op,
    })
}

/// What the store must hold of one organization.
#[derive(Clone, Debug, Default, PartialEq)]
struct Tools {
    revision: i64,
    tools: BTreeMap<ToolId, Tool>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Tool {
    /// Name and definition, from version 1.
    versions: Vec<(String, String)>,
    is_deleted: bool,
}

/// What the model says of a write, without the keys that only the store knows.
#[derive(Debug, PartialEq)]
enum Told {
    Saved(u32),
    NameTaken,
    Already,
    Done,
    Conflict,
}

impl Tools {
    fn apply(&mut self, change: &Change) -> Told {
        let told = match change {
            Change::SaveTool(save) => self.save(save),
            Change::DeleteTool { tool, .. } => match self.tools.get_mut(tool) {
                Some(tool) if !tool.is_deleted => {
                    tool.is_deleted = true;
                    Told::Done
                }
                _ => Told::Already,
            },
            other => panic!("{other:?}"),
        };
        if matches!(told, Told::Saved(_) | Told::Done) {
            self.revision += 1;
        }
        told
    }

    fn save(&mut self, save: &SaveTool) -> Told {
        let follows = usize::try_from(save.follows).unwrap();
        let is_newest = |tool: &Tool| !tool.is_deleted && tool.versions.len() == follows;
        if follows > 0 && !self.tools.get(&save.tool).is_some_and(is_newest) {
            return Told::Already;
        }
        let is_other =
            |id: &ToolId, tool: &Tool| *id != save.tool && tool.name() == Some(save.name.as_str());
        if self.tools.iter().any(|(id, tool)| is_other(id, tool)) {
            return Told::NameTaken;
        }
        if follows == 0 && self.tools.contains_key(&save.tool) {
            return Told::Conflict;
        }
        let versions = &mut self.tools.entry(save.tool).or_default().versions;
        versions.push((save.name.clone(), save.definition.clone()));
        Told::Saved(save.follows + 1)
    }

    /// Of what is offered: name, definition and number of the newest version, by name.
    fn offered(&self) -> Vec<(String, String, usize)> {
        let newest = |tool: &Tool| {
            let (name, definition) = tool.versions.last()?;
            Some((name.clone(), definition.clone(), tool.versions.len()))
        };
        let kept = self.tools.values().filter(|tool| !tool.is_deleted);
        let mut offered: Vec<_> = kept.filter_map(newest).collect();
        offered.sort();
        offered
    }
}

impl Tool {
    /// The name that nobody else may have.
    fn name(&self) -> Option<&str> {
        let (name, _) = self.versions.last().filter(|_| !self.is_deleted)?;
        Some(name)
    }
}

fn told(written: Result<Vec<Outcome>, StoreApplyError>) -> (Told, Option<ToolVersionKey>) {
    match written.as_deref() {
        Ok([Outcome::ToolSaved(version)]) => (Told::Saved(version.number), Some(version.key)),
        Ok([Outcome::NameTaken]) => (Told::NameTaken, None),
        Ok([Outcome::Already]) => (Told::Already, None),
        Ok([Outcome::Done]) => (Told::Done, None),
        Err(StoreApplyError::Conflict { .. }) => (Told::Conflict, None),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tools_are_what_the_model_says() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let world = runtime.block_on(StoreWorld::fill(
        Store::in_memory_inline().unwrap(),
        None,
        None,
    ));
    let n = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 128,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&proptest::collection::vec(step(), 1..32), |steps| {
        n.set(n.get() + 1);
        let slugs = [format!("own {}", n.get()), format!("stranger {}", n.get())];
        let organizations =
            slugs.map(|slug| runtime.block_on(create_organization(&world.store, &slug)));
        check(&runtime, &world.store, organizations, &steps);
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
    assert_eq!(
        runtime.block_on(world.store.integrity_check()).unwrap(),
        Vec::<String>::new()
    );
}

fn check(runtime: &Runtime, store: &Store, organizations: [OrgId; 2], steps: &[Step]) {
    let mut models = [Tools::default(), Tools::default()];
    let mut versions = Vec::new();
    for (n, step) in (0_i64..).zip(steps) {
        let whose = usize::from(step.is_stranger);
        let organization = organizations[whose];
        let change = change(organization, step, n);
        let expected = models[whose].apply(&change);
        let (found, key) = told(store.apply_inline(&ChangeGroup::Free(vec![change.clone()])));
        assert_eq!(found, expected, "{step:?}");
        if let (Some(key), Change::SaveTool(save)) = (key, change) {
            versions.push((whose, key, save));
        }
        for (organization, model) in organizations.into_iter().zip(&models) {
            assert_eq!(offered(runtime, store, organization), model.offered());
            let seen = runtime.block_on(revision(store, organization));
            assert_eq!(seen, model.revision);
        }
    }
    // Whatever came later, a version is what it was, for its own organization.
    for (whose, key, save) in versions {
        let read = |organization| {
            runtime
                .block_on(store.tool_version(organization, key))
                .unwrap()
        };
        let row = read(organizations[whose]).unwrap();
        assert_eq!(
            (row.id, row.version.number, row.name, row.definition),
            (save.tool, save.follows + 1, save.name, save.definition)
        );
        assert_eq!(row.deleted, models[whose].tools[&save.tool].is_deleted);
        assert_eq!(read(organizations[1 - whose]), None);
    }
}

fn change(organization: OrgId, step: &Step, n: i64) -> Change {
    let tool = tool_id(step.tool);
    match step.op {
        Op::Save { name, follows } => Change::SaveTool(Box::new(SaveTool {
            organization,
            tool,
            name: NAMES[name].to_owned(),
            definition: format!("{{\"n\":{n}}}"),
            follows,
            room: ToolRoom {
                tools_max: usize::MAX,
                bytes_max: usize::MAX,
            },
            at: at(n),
        })),
        Op::Delete => Change::DeleteTool {
            organization,
            tool,
            at: at(n),
        },
    }
}

fn offered(runtime: &Runtime, store: &Store, organization: OrgId) -> Vec<(String, String, usize)> {
    let rows = runtime.block_on(store.tools(organization)).unwrap();
    rows.into_iter()
        .map(|row| {
            let number = usize::try_from(row.version.number).unwrap();
            (row.name, row.definition, number)
        })
        .collect()
}
