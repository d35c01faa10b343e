//! What a step moves between a GPU, its host's memory and drives, and what the CPU updates.
//!
//! Gradients leave as soon as they are reduced; the CPU updates its part tile by tile, or drive by drive one
//! sub-group after the other; new parameters come back beside the update of the next tile. Left out: the norm of
//! gradients on the CPU, casts on either side (they are part of what Adam moves), page faults.

use super::layers::Deps;
use super::offload::{OffloadDevice, STATES};
use super::owned::{part, updated};
use super::script::{COMPUTE, HOST, HOST_IN, HOST_OUT, STORAGE_IN, STORAGE_OUT};
use super::spec::DataParallelSpec;
use super::step::StepWriter;
use fabricsim_plan::job::{TaskId, TaskKind};
use fabricsim_topology::offload::state_offload;
use fabricsim_units::Time;
use std::collections::VecDeque;

impl StepWriter<'_, '_, '_> {
    /// The part of gradients that a rank updates, once they are reduced.
    pub(super) fn divided_gradients(&self, dense: u64, experts: u64) -> u64 {
        match self.training.spec.data_parallel {
            DataParallelSpec::Zero(_) => part(self.training, dense, experts),
            _ => dense + experts,
        }
    }

    /// So many gradients are final after a task: they go to the host, and on to drives, if that is where they are
    /// to be. The CPU adds them to those of the micro-batches before.
    pub(super) fn gradients_to_host(&mut self, count: u64, after: Option<TaskId>) {
        let t = self.training;
        if self.host.is_none() || !t.gradients_leave() {
            return;
        }
        let Some(sent) = self.copy_out(count, after.as_slice()) else {
            return;
        };
        let mut done = sent;
        if !self.first_micro_batch
            && let Some(host) = self.host
        {
            // The sum is read and written in FP32, the gradient read.
            let bytes = count * (8 + u64::from(t.gradient_bytes()));
            let time = picos(bytes as f64 * host.byte);
            done = self
                .writer
                .wait(HOST, "sum of gradients on the CPU", time, &[done]);
        }
        self.gradients.sent.add(Some(done));
        let overlaps = t.offload().is_none_or(|offload| offload.overlaps());
        if !overlaps {
            // Kernels go on when it is there.
            let nothing = Time::ZERO;
            let k = self
                .writer
                .wait(COMPUTE, "gradients on the host", nothing, &[done]);
            self.last = Some(k);
        }
        if self.last_micro_batch && t.offload().is_some_and(|o| o.speculative_update) {
            self.update_early(count, done);
        }
    }

    /// These parameters are updated at once, and come back: the layers that they are of are through with their
    /// backward pass.
    fn update_early(&mut self, count: u64, after: TaskId) {
        self.of_kind(TaskKind::Optimiser, |me| {
            let done = me.update(count, &Deps::one(after));
            let came = me.new_parameters(count, &[done]);
            me.gradients.updated.0 += count;
            me.gradients.updated.1.add(came.or(Some(done)));
        });
    }

    /// New parameters come to the GPU, if that has them.
    fn new_parameters(&mut self, count: u64, after: &[TaskId]) -> Option<TaskId> {
        let (host, offload) = (self.host?, self.training.offload()?);
        if offload.parameters.is_away() {
            return None;
        }
        let back = (host.into, count * u64::from(offload.parameter_bytes));
        self.writer.transfer(HOST_IN, "new parameters", back, after)
    }

    /// Gradients to the host's memory, and to drives.
    fn copy_out(&mut self, count: u64, after: &[TaskId]) -> Option<TaskId> {
        let (host, offload) = (self.host?, self.training.offload()?);
        let bytes = count * u64::from(self.training.gradient_bytes());
        let out = (host.out, bytes);
        let sent = self
            .writer
            .transfer(HOST_OUT, "gradients to the host", out, after)?;
        let (OffloadDevice::Nvme, Some((write, _))) = (offload.gradients(), host.drives) else {
            return Some(sent);
        };
        let to = (write, bytes);
        let stored = self
            .writer
            .transfer(STORAGE_OUT, "gradients to drives", to, &[sent]);
        stored.or(Some(sent))
    }

    /// So many parameters come to the GPU, if they are not there.
    pub(super) fn parameters_from_host(&mut self, count: u64, after: &[TaskId]) -> Option<TaskId> {
        let (host, offload) = (self.host?, self.training.offload()?);
        if !offload.parameters.is_away() {
            return None;
        }
        let bytes = count * u64::from(offload.parameter_bytes);
        let mut read = None;
        if let (OffloadDevice::Nvme, Some((_, from))) = (offload.parameters, host.drives) {
            let name = "parameters from drives";
            let from = (from, bytes);
            read = self.writer.transfer(STORAGE_IN, name, from, after);
        }
        let after = read.as_ref().map_or(after, std::slice::from_ref);
        let from = (host.into, bytes);
        self.writer
            .transfer(HOST_IN, "parameters from the host", from, after)
    }

    /// The CPU updates the rank's part, when all gradients are there; the next step begins with the new
    /// parameters, or with those before them if updates are delayed.
    pub(super) fn update_on_host(&mut self, deps: &Deps) {
        let t = self.training;
        let (Some(host), Some(offload)) = (self.host, t.offload()) else {
            return;
        };
        let mut own = updated(t, self.at.pp, self.at.dp).unwrap_or(0);
        let figures = state_offload();
        let mut ready = deps.clone();
        let step = self.writer.tag.step;
        if offload.delayed_update {
            // It is part of the next step; behind the last one nothing waits for it.
            self.writer.tag.step = step + 1;
            if step + 1 >= t.spec.steps {
                own = 0;
            }
        }
        if !t.gradients_leave() && own > 0 {
            let sent = self.copy_out(own, deps.as_slice());
            ready.add(sent);
        }
        let on_drives = |device: OffloadDevice, width: u64| match device {
            OffloadDevice::Nvme => width,
            _ => 0,
        };
        let states = on_drives(offload.optimizer, STATES);
        let gradients = on_drives(offload.gradients(), u64::from(t.gradient_bytes()));
        let parameters = on_drives(offload.parameters, u64::from(offload.parameter_bytes));
        let tile = match states + gradients {
            0 if offload.overlaps() => figures.tile.value,
            0 => own,
            _ => figures.sub_group.value,
        };
        let buffers = if offload.pipeline { 2 } else { 1 };
        // Sub-groups whose buffers are in use.
        let mut in_use: VecDeque<TaskId> = VecDeque::new();
        // What was updated early is valid when the norm is known.
        let (early, mut new) = std::mem::take(&mut self.gradients.updated);
        own = own.saturating_sub(early);
        if early > 0 {
            new.extend(deps);
        }
        while own > 0 {
            let count = own.min(tile.max(1));
            own -= count;
            let mut after = ready.clone();
            if let Some((write, read)) = host.drives
                && states + gradients > 0
            {
                let free = (in_use.len() >= buffers)
                    .then(|| in_use.pop_front())
                    .flatten();
                after.add(free);
                let from = (read, count * (states + gradients));
                let name = "states from drives";
                let came = self
                    .writer
                    .transfer(STORAGE_IN, name, from, after.as_slice());
                after.add(came);
                let done = self.update(count, &after);
                let to = (write, count * states);
                let name = "states to drives";
                let stored = self.writer.transfer(STORAGE_OUT, name, to, &[done]);
                in_use.push_back(stored.unwrap_or(done));
                new.add(stored);
                after = Deps::one(done);
            } else {
                after = Deps::one(self.update(count, &after));
            }
            new.extend(&after);
            if let Some((write, _)) = host.drives {
                let to = (write, count * parameters);
                let name = "parameters to drives";
                let stored = self
                    .writer
                    .transfer(STORAGE_OUT, name, to, after.as_slice());
                new.add(stored);
            }
            new.add(self.new_parameters(count, after.as_slice()));
        }
        self.writer.tag.step = step;
        let waits_for = match offload.delayed_update {
            true => {
                let mut before = std::mem::replace(&mut self.delayed, new);
                before.extend(deps);
                before
            }
            false => new,
        };
        let nothing = Time::ZERO;
        let name = "new parameters are there";
        let k = self
            .writer
            .wait(COMPUTE, name, nothing, waits_for.as_slice());
        self.last = Some(k);
    }

    fn update(&mut self, count: u64, after: &Deps) -> TaskId {
        let byte = self.host.map_or(0.0, |host| host.byte);
        let bytes = count as f64 * state_offload().adam_traffic.value.get() as f64;
        let time = picos(bytes * byte);
        self.writer
            .wait(HOST, "optimizer on the CPU", time, after.as_slice())
    }
}

fn picos(picos: f64) -> Time {
    Time::from_picos(picos.round() as u64)
}
