// SPDX-License-Identifier: Apache-2.0
#include "supervisor/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/thread_without_signals.h"

namespace skein::supervisor {
namespace {

constexpr std::chrono::milliseconds kFirstPause{200};
constexpr std::chrono::milliseconds kLongestPause{5000};

// Sums grow; what a rank has now is what it said last.
void AddLoad(const engine::RankLoad& from, engine::RankLoad& to) {
  to.steps += from.steps;
  to.busy_ns += from.busy_ns;
  to.communication_ns += from.communication_ns;
  to.waiting_ns += from.waiting_ns;
  to.bytes_sent += from.bytes_sent;
  to.memory_bytes = from.memory_bytes;
  to.recent_share = from.recent_share;
}

// Whether mpirun started this process, or another launcher several of it.
bool InsideMpiJob() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return true;
  const char* size = std::getenv("PMI_SIZE");
  return size != nullptr && std::atoi(size) > 1;
}

}  // namespace

Status RefuseInsideMpiJob(int ranks) {
  if (!InsideMpiJob()) return OkStatus();
  return InvalidArgument(fmt::format("skein starts its ranks itself and is in no MPI job; run it without mpirun, with --tensor {} --transport mpi",
                                     std::max(ranks, 2)),
                         "transport");
}

Result<std::unique_ptr<Supervisor>> Supervisor::Start(SupervisorOptions options) {
  SKEIN_RETURN_IF_ERROR(RefuseInsideMpiJob(options.replica.setup.ranks()));
  RankSetup& setup = options.replica.setup;
  if (!setup.model.empty()) {
    SKEIN_ASSIGN_OR_RETURN(setup.identity, IdentityOf(setup.model));
  }
  options.ranks.resize(static_cast<std::size_t>(setup.ranks()));
  SKEIN_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  std::unique_ptr<Supervisor> supervisor(new Supervisor(std::move(options), std::move(wake)));
  supervisor->earlier_ = supervisor->options_.ranks;
  for (std::size_t rank = 0; rank < supervisor->earlier_.size(); ++rank) supervisor->earlier_[rank].rank = static_cast<std::int32_t>(rank);
  engine::RemoteEngineOptions remote;
  remote.ranks = [raw = supervisor.get()] { return raw->Ranks(); };
  if (const std::int32_t requests = supervisor->options_.replica.setup.requests; requests > 0) {
    remote.requests = static_cast<std::size_t>(requests);
  }
  remote.on_lost = [raw = supervisor.get()](const Status& status) {
    {
      const std::lock_guard lock(raw->mutex_);
      raw->engine_is_lost_ = true;
      raw->engine_lost_ = status;
    }
    raw->wake_.Set();
  };
  SKEIN_ASSIGN_OR_RETURN(supervisor->remote_, engine::RemoteEngine::Create(std::move(remote), supervisor->clock_));
  supervisor->thread_ = ThreadWithoutSignals([raw = supervisor.get()] { raw->Run(); });
  std::unique_lock lock(supervisor->mutex_);
  supervisor->changed_.wait(lock, [&] { return supervisor->first_ != First::kWaits; });
  if (supervisor->first_ == First::kFailed) return supervisor->first_error_;
  lock.unlock();
  return supervisor;
}

Supervisor::~Supervisor() { Shutdown(); }

void Supervisor::Shutdown() {
  if (remote_ != nullptr) remote_->Shutdown();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  wake_.Set();
  if (thread_.joinable()) thread_.join();
}

std::vector<pid_t> Supervisor::pids() const {
  const std::lock_guard lock(mutex_);
  return pids_;
}

std::vector<engine::RankStats> Supervisor::Ranks() const {
  const std::lock_guard lock(mutex_);
  std::vector<engine::RankStats> ranks = earlier_;
  for (std::size_t rank = 0; rank < loads_.size(); ++rank) AddLoad(loads_[rank], ranks[rank].load);
  return ranks;
}

void Supervisor::NoteLoads(const Replica& replica) {
  const std::lock_guard lock(mutex_);
  pids_ = replica.pids();
  loads_ = replica.loads();
}

// Its ranks' work stays counted; who was to blame is counted, too.
void Supervisor::NoteEnd(const Replica& replica) {
  const std::lock_guard lock(mutex_);
  const std::vector<engine::RankLoad> loads = replica.loads();
  for (std::size_t rank = 0; rank < loads.size(); ++rank) AddLoad(loads[rank], earlier_[rank].load);
  if (replica.lost() >= 0) ++earlier_[static_cast<std::size_t>(replica.lost())].losses;
  loads_.clear();
}

bool Supervisor::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

bool Supervisor::LostEngine() const {
  const std::lock_guard lock(mutex_);
  return engine_is_lost_;
}

void Supervisor::Run() {
  std::chrono::milliseconds pause{0};
  for (std::uint64_t incarnation = 1; !stopping(); ++incarnation) {
    bool went_well = false;
    const Status status = RunReplica(incarnation, went_well);
    if (stopping()) return;
    {
      const std::lock_guard lock(mutex_);
      if (first_ == First::kWaits) {
        first_ = First::kFailed;
        first_error_ = status;
        changed_.notify_all();
        return;
      }
    }
    if (went_well) pause = std::chrono::milliseconds(0);
    Log(LogLevel::kWarning, fmt::format("{}; all ranks are started anew{}", status.message(),
                                        pause.count() > 0 ? fmt::format(" in {:.1f} s", static_cast<double>(pause.count()) / 1e3) : ""));
    if (!Pause(pause)) return;
    pause = std::clamp(pause * 2, kFirstPause, kLongestPause);
  }
}

// One replica's life. Ok: it was stopped.
Status Supervisor::RunReplica(std::uint64_t incarnation, bool& went_well) {
  {
    const std::lock_guard lock(mutex_);
    engine_is_lost_ = false;
  }
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica, Replica::Start(options_.replica, incarnation));
  Status status;
  while (true) {
    status = replica->Watch(wake_);
    if (status.ok() && LostEngine()) {
      // Its process says better what it was, a moment later.
      status = replica->Watch(wake_);
      const std::lock_guard lock(mutex_);
      if (status.ok()) status = engine_lost_.WithContext("rank 0");
    }
    if (!status.ok() || stopping()) break;
    if (!went_well && replica->ready()) {
      went_well = true;
      NoteStart(*replica);
      remote_->Attach(replica->TakeEngine(), replica->facts().limits);
      if (incarnation > 1) Log(LogLevel::kInfo, "ranks are back, requests go on");
    }
    NoteLoads(*replica);
    const std::lock_guard lock(mutex_);
    if (went_well && first_ == First::kWaits) {
      first_ = First::kDone;
      changed_.notify_all();
    }
  }
  remote_->Detach();  // what the lost replica still has to say comes too late
  NoteEnd(*replica);
  if (status.ok()) replica->Stop();
  return status;
}

// What memory dictated at first stays, so that requests that were taken fit the next replica.
void Supervisor::NoteStart(const Replica& replica) {
  const std::lock_guard lock(mutex_);
  if (first_ != First::kWaits) return;
  facts_ = replica.facts();
  RankSetup& setup = options_.replica.setup;
  if (facts_.context > 0) setup.context = facts_.context;
  if (facts_.kv_tokens > 0) setup.kv_tokens = facts_.kv_tokens;
  if (!facts_.arithmetic.empty()) setup.arithmetic = facts_.arithmetic;
  if (!facts_.kv_type.empty()) setup.kv_type = facts_.kv_type;
  if (!facts_.outer_wire.empty()) setup.outer_wire = facts_.outer_wire;
}

// False: told to stop.
bool Supervisor::Pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_; });
}

void Supervisor::Log(LogLevel level, std::string_view text) const {
  if (options_.log) options_.log(level, text);
}

}  // namespace skein::supervisor
