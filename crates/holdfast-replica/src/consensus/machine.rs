//! The state machine as openraft wants it: applies committed entries and passes on what follows from them.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use holdfast_core::planted::{Bug, planted};
use holdfast_core::{Applied, ClusterTime, Group, LockTable};
use openraft::storage::{EntryResponder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend};

use crate::consensus::codec;
use crate::consensus::snapshots::{SnapshotBuilder, SnapshotStore};
use crate::consensus::types::{LogId, Outcomes, SnapshotMeta, StoredMembership, Types};
use crate::effects::{Effects, Position};
use crate::handle::{OnApplied, StateChange};
use crate::snapshot_files::SnapshotFile;
use crate::world::Runtime;

/// What has been applied so far.
pub(crate) struct MachineState<R: Runtime> {
    pub(crate) table: LockTable,
    pub(crate) last_applied: Option<LogId<R>>,
    pub(crate) membership: StoredMembership<R>,
}

impl<R: Runtime> MachineState<R> {
    pub(crate) fn meta(&self) -> SnapshotMeta<R> {
        SnapshotMeta::<R> { last_log_id: self.last_applied, last_membership: self.membership.clone() }
    }

    /// Term and index of the last applied entry.
    pub(crate) fn position(&self) -> Position {
        self.last_applied.as_ref().map_or(Position::default(), |log_id| Position {
            term: codec::term_of::<R>(log_id),
            index: log_id.index,
        })
    }
}

/// The replicated state of this node, shared by openraft, which writes it, and everybody who reads.
pub(crate) struct Machine<R: Runtime> {
    state: Arc<Mutex<MachineState<R>>>,
    snapshots: SnapshotStore<R>,
    effects: Arc<Effects>,
    on_applied: Option<OnApplied>,
}

impl<R: Runtime> Clone for Machine<R> {
    fn clone(&self) -> Self {
        Self {
            state: self.state.clone(),
            snapshots: self.snapshots.clone(),
            effects: self.effects.clone(),
            on_applied: self.on_applied.clone(),
        }
    }
}

impl<R: Runtime> Machine<R> {
    /// Begins with the newest snapshot, or with nothing.
    pub(crate) fn open(
        snapshots: SnapshotStore<R>,
        effects: Arc<Effects>,
        on_applied: Option<OnApplied>,
    ) -> io::Result<Self> {
        let state = match snapshots.current() {
            Some((meta, file)) => MachineState {
                table: crate::consensus::snapshots::read_table(&file)?,
                last_applied: meta.last_log_id,
                membership: meta.last_membership,
            },
            None => MachineState {
                table: LockTable::default(),
                last_applied: None,
                membership: StoredMembership::<R>::default(),
            },
        };
        let machine = Self { state: Arc::new(Mutex::new(state)), snapshots, effects, on_applied };
        machine.tell_replaced(&machine.lock());
        Ok(machine)
    }

    /// Looks at the state; nothing is applied meanwhile, so be quick.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&MachineState<R>) -> T) -> T {
        look(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, MachineState<R>> {
        self.state.lock().expect("applying an entry does not panic")
    }

    fn tell_replaced(&self, state: &MachineState<R>) {
        if let Some(tell) = &self.on_applied {
            tell(state.position().index, StateChange::Snapshot, &state.table);
        }
        self.effects.installed(state.position(), &state.table);
    }

    fn replace(&self, state: &mut MachineState<R>, meta: &SnapshotMeta<R>, table: LockTable) {
        state.table = table;
        state.last_applied = meta.last_log_id;
        state.membership = meta.last_membership.clone();
        self.tell_replaced(state);
    }

    /// What only a planted bug does: leases end here, and nowhere else.
    pub(crate) fn expire_alone(&self, now: ClusterTime) {
        let mut state = self.lock();
        let Applied { events, .. } = state.table.apply(&Group { now, ops: Vec::new() });
        self.effects.applied(state.position(), &state.table, events);
    }

    /// Applies one entry and tells what followed, before anybody can see the next one.
    fn apply_entry(
        &self,
        log_id: LogId<R>,
        payload: EntryPayload<
            crate::consensus::types::GroupBytes,
            crate::world::NodeId,
            openraft::impls::BasicNode,
        >,
    ) -> io::Result<Outcomes> {
        let group = match &payload {
            EntryPayload::Normal(bytes) => Some(Group::decode(&bytes.0).map_err(io::Error::other)?),
            EntryPayload::Blank | EntryPayload::Membership(_) => None,
        };
        let mut state = self.lock();
        let Applied { outcomes, events } =
            group.as_ref().map(|group| state.table.apply(group)).unwrap_or_default();
        if let EntryPayload::Membership(membership) = payload {
            state.membership = StoredMembership::<R>::new(Some(log_id), membership);
        }
        state.last_applied = Some(log_id);
        if let Some(tell) = &self.on_applied {
            let (term, group) = (codec::term_of::<R>(&log_id), group.as_ref());
            let change = StateChange::Entry { term, group, outcomes: &outcomes, events: &events };
            tell(log_id.index, change, &state.table);
        }
        self.effects.applied(state.position(), &state.table, events);
        Ok(Outcomes(outcomes))
    }
}

impl<R: Runtime> RaftStateMachine<Types<R>> for Machine<R> {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = SnapshotBuilder<R>;

    async fn applied_state(&mut self) -> Result<(Option<LogId<R>>, StoredMembership<R>), io::Error> {
        let state = self.lock();
        Ok((state.last_applied, state.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types<R>>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let outcomes = self.apply_entry(entry.log_id, entry.payload)?;
            if let Some(responder) = responder {
                responder.send(outcomes);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        let state = self.lock();
        SnapshotBuilder::new(state.meta(), state.table.snapshot(), self.snapshots.clone())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<R>,
        snapshot: SnapshotFile,
    ) -> Result<(), io::Error> {
        let table = crate::consensus::snapshots::read_table(&snapshot)?;
        if planted(Bug::SnapshotInstalledAmidApply) {
            let (machine, meta) = (self.clone(), meta.clone());
            drop(R::spawn(async move {
                R::sleep(Duration::from_millis(20)).await;
                machine.replace(&mut machine.lock(), &meta, table);
            }));
            return Ok(());
        }
        self.snapshots.adopt(meta, &snapshot).await?;
        let mut state = self.lock();
        if state.last_applied >= meta.last_log_id {
            return Ok(()); // Overtaken by entries that were applied meanwhile.
        }
        self.replace(&mut state, meta, table);
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<openraft::alias::SnapshotOf<Types<R>, SnapshotFile>>, io::Error> {
        Ok(self.snapshots.current().map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}
