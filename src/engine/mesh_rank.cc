// SPDX-License-Identifier: Apache-2.0
#include "engine/mesh_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "kernels/rows/rows.h"
#include "model/phase_clock.h"
#include "scheduler/step_wire.h"

namespace skein::engine {

using scheduler::Output;
using scheduler::PlanRow;
using scheduler::StepPlan;
using scheduler::StepResult;

namespace {

// Times a step where its phases are asked for.
class TimedStep {
 public:
  TimedStep(model::PhaseClock* clock, const StepPlan& plan) : clock_(clock) {
    if (clock_ == nullptr) return;
    std::size_t tokens = 0;
    for (const PlanRow& row : plan.rows) tokens += row.tokens.size();
    clock_->BeginStep(static_cast<std::int32_t>(tokens), tokens > plan.rows.size());
  }
  ~TimedStep() {
    if (clock_ == nullptr) return;
    clock_->Mark(model::Phase::kSample);  // what is left behind the decoder
    clock_->EndStep();
  }
  TimedStep(const TimedStep&) = delete;
  TimedStep& operator=(const TimedStep&) = delete;

 private:
  model::PhaseClock* const clock_;
};

// A rank waits for the next plan as long as nobody asks anything; that its peers are alive is the supervisor's business meanwhile.
constexpr std::chrono::hours kNextPlan{24 * 365};
constexpr std::uint64_t kMessageMax = std::uint64_t{1} << 32;  // bytes

// Waits with another limit for as long as this lives.
class Patience {
 public:
  Patience(comm::Transport& transport, std::chrono::nanoseconds timeout) : transport_(transport), before_(transport.timeout()) {
    transport_.set_timeout(timeout);
  }
  ~Patience() { transport_.set_timeout(before_); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  comm::Transport& transport_;
  std::chrono::nanoseconds before_;
};

// A letter: how many bytes, and the first of them; most plans and results need no second message.
class Letter {
 public:
  explicit Letter(std::span<const std::byte> bytes = {}) {
    letter_.count = bytes.size();
    std::copy_n(bytes.begin(), Inside(), letter_.first.begin());
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(&letter_, 1)); }
  // Fills the part of `bytes` that came inside and returns the rest. Errors: kUnavailable for one that is too long.
  Result<std::span<std::byte>> Unpack(std::vector<std::byte>& bytes) const {
    if (letter_.count > kMessageMax) {
      return Status(Code::kUnavailable, fmt::format("a message of {} bytes between ranks, expected at most {}", letter_.count, kMessageMax));
    }
    bytes.resize(letter_.count);
    std::copy_n(letter_.first.begin(), Inside(), bytes.begin());
    return std::span(bytes).subspan(Inside());
  }
  std::size_t Inside() const { return std::min<std::size_t>(letter_.count, kInside); }

 private:
  static constexpr std::size_t kInside = 2040;
  struct {
    std::uint64_t count = 0;
    std::array<std::byte, kInside> first{};
  } letter_;
};

}  // namespace

Status BroadcastBytes(comm::Communicator& everyone, std::vector<std::byte>& bytes) {
  Letter letter{bytes};
  SKEIN_RETURN_IF_ERROR(everyone.Broadcast(0, letter.bytes()));
  SKEIN_ASSIGN_OR_RETURN(const std::span<std::byte> rest, letter.Unpack(bytes));
  return rest.empty() ? OkStatus() : everyone.Broadcast(0, rest);
}

Status SendBytes(comm::Communicator& everyone, int to, std::span<const std::byte> bytes) {
  Letter letter{bytes};
  SKEIN_RETURN_IF_ERROR(everyone.Send(to, letter.bytes()));
  const std::span<const std::byte> rest = bytes.subspan(letter.Inside());
  return rest.empty() ? OkStatus() : everyone.Send(to, rest);
}

Status ReceiveBytes(comm::Communicator& everyone, int from, std::vector<std::byte>& bytes) {
  Letter letter;
  SKEIN_RETURN_IF_ERROR(everyone.Receive(from, letter.bytes()));
  SKEIN_ASSIGN_OR_RETURN(const std::span<std::byte> rest, letter.Unpack(bytes));
  return rest.empty() ? OkStatus() : everyone.Receive(from, rest);
}

Result<std::unique_ptr<MeshRank>> MeshRank::Create(const model::Model& model, kernels::ThreadPool& pool, const comm::Mesh& mesh,
                                                   comm::Rank rank, MeshLinks links, const MeshRankOptions& options,
                                                   const Clock& clock) {
  const ExecutorLimits limits{.vocabulary = model.config().vocabulary,
                              .context = options.context,
                              .blocks = options.frames * kernels::kFrameBlocks,
                              .block_tokens = kernels::kBlockTokens,
                              .step_tokens = options.step_tokens,
                              .step_outputs = options.step_outputs,
                              .plans_in_flight = mesh.shape().pipe};  // a stage each
  std::unique_ptr<MeshRank> made(new MeshRank(model, pool, mesh, rank, std::move(links), limits, clock));
  SKEIN_ASSIGN_OR_RETURN(made->kv_, model::KvStore::Create(model.local(), options.kv_type, options.frames));
  made->counters_->SetMemory(model.packed_bytes() + made->kv_->bytes());
  made->kv_->Touch(pool);  // now, not in the middle of the first answers
  const comm::Communicator* tensor = made->links_.tensor.get();
  const bool overlap = tensor != nullptr && options.overlap.value_or(tensor->group().hosts.hosts() > 1);
  SKEIN_ASSIGN_OR_RETURN(made->decoder_, model::Decoder::Create(model, *made->kv_, pool, {options.step_tokens, options.step_outputs},
                                                                {made->links_.tensor.get(), made->links_.pipe.get(), overlap}, options.phases));
  made->phases_ = options.phases;
  return made;
}

MeshRank::MeshRank(const model::Model& model, kernels::ThreadPool& pool, const comm::Mesh& mesh, comm::Rank rank, MeshLinks links,
                   const ExecutorLimits& limits, const Clock& clock)
    : model_(model),
      limits_(limits),
      pool_(pool),
      clock_(clock),
      mesh_(mesh),
      rank_(rank),
      sampling_(mesh.RankAt({0, mesh.shape().pipe - 1, 0, 0})),
      links_(std::move(links)),
      inputs_(limits) {
  readings_.reserve(static_cast<std::size_t>(limits.step_outputs));
  if (!model.share().has_head) return;
  for (int i = 0; i < pool.threads(); ++i) {
    if (shares_vocabulary()) sieves_.emplace_back(model.path());
    else samplers_.emplace_back(model.path(), limits.vocabulary);
  }
  if (!shares_vocabulary()) return;
  shards_.self = model.share().tensor_rank;
  shards_.first.clear();
  for (const model::Span& span : model.share().all_vocabulary) shards_.first.push_back(span.begin);
  shards_.first.push_back(limits.vocabulary);
  sizes_.resize(shards_.count());
  shard_readings_.resize(static_cast<std::size_t>(limits.step_outputs));
}

Status MeshRank::Run(const StepPlan& plan, StepResult& result) {
  result.step = plan.step;
  const TimedStep timed(phases_, plan);
  const std::int64_t begin = clock_.NowNs();
  const std::uint64_t waited_before = WaitedNs();
  result.error = inputs_.Build(plan, *kv_);
  if (!result.error.empty()) return OkStatus();
  SKEIN_RETURN_IF_ERROR(Compute(plan, result));
  Account(result, static_cast<std::uint64_t>(clock_.NowNs() - begin), WaitedNs() - waited_before);
  return OkStatus();
}

void MeshRank::Account(StepResult& result, std::uint64_t taken_ns, std::uint64_t waited_ns) {
  result.compute_ns = taken_ns;
  result.communication_ns = std::min(taken_ns, decoder_->communication_ns() + gather_ns_);
  waited_ns = std::min(waited_ns, result.communication_ns);
  counters_->Add({.steps = 1,
                  .busy_ns = taken_ns - result.communication_ns,
                  .communication_ns = result.communication_ns - waited_ns,
                  .waiting_ns = waited_ns,
                  .bytes_sent = BytesSent()});
  if (links_.pipe == nullptr) return;
  // Waiting for the stage before is no cost of this step: forecasts of how long steps take learn from it.
  result.compute_ns -= waited_ns;
  result.communication_ns -= waited_ns;
}

std::uint64_t MeshRank::WaitedNs() const {
  std::uint64_t waited_ns = 0;
  for (const auto* link : {&links_.pipe, &links_.tensor}) waited_ns += *link == nullptr ? 0 : (*link)->transport().counts().waited_ns;
  return waited_ns;
}

std::uint64_t MeshRank::BytesSent() const {
  std::uint64_t bytes = 0;
  for (const auto* link : {&links_.everyone, &links_.pipe, &links_.tensor}) bytes += *link == nullptr ? 0 : (*link)->transport().counts().bytes_posted;
  return bytes;
}

Status MeshRank::Follow() {
  comm::Communicator& everyone = *links_.everyone;
  std::vector<std::byte> bytes;
  for (;;) {
    {
      const Patience patience(everyone.transport(), kNextPlan);
      SKEIN_RETURN_IF_ERROR(BroadcastBytes(everyone, bytes));
    }
    if (bytes.empty()) return OkStatus();
    SKEIN_ASSIGN_OR_RETURN(const StepPlan plan, scheduler::DecodePlan(bytes));
    StepResult result;
    SKEIN_RETURN_IF_ERROR(Run(plan, result));
    if (samples()) SKEIN_RETURN_IF_ERROR(SendBytes(everyone, 0, scheduler::EncodeResult(result)));
  }
}

Status MeshRank::Compute(const StepPlan& plan, StepResult& result) {
  SKEIN_ASSIGN_OR_RETURN(const std::span<const float> logits, decoder_->Forward(inputs_.batch()));
  if (!model_.share().has_head) return OkStatus();
  SKEIN_RETURN_IF_ERROR(ReadOutputs(plan, logits, result));
  std::vector<TokenId> sampled(plan.rows.size(), -1);
  for (const scheduler::RowResult& row : result.rows) {
    const PlanRow& planned = plan.rows[static_cast<std::size_t>(row.row)];
    if (planned.output != Output::kSample) continue;
    const TokenId token = row.scored.front().token;
    sampled[static_cast<std::size_t>(row.row)] = token;
    inputs_.StateOf(planned.sequence).Accept(token);
  }
  inputs_.Remember(plan.step, std::move(sampled));
  return OkStatus();
}

Status MeshRank::ReadOutputs(const StepPlan& plan, std::span<const float> logits, StepResult& result) {
  gather_ns_ = 0;
  ListReadings(plan, result);
  SKEIN_RETURN_IF_ERROR(ReadLogits(plan, logits, result));
  if (readings_.empty()) return OkStatus();
  if (shares_vocabulary()) return ReadShards(plan, logits);
  ForReadings([&](std::size_t i, std::size_t worker) { Read(plan, readings_[i], logits, samplers_[worker]); });
  return OkStatus();
}

void MeshRank::ListReadings(const StepPlan& plan, StepResult& result) {
  masks_.assign(plan.rows.size(), {});
  for (const scheduler::GrammarMask& mask : plan.masks) masks_[static_cast<std::size_t>(mask.row)] = mask.allowed;
  const auto wants = [](const PlanRow& row) { return row.output != Output::kNone; };
  result.rows.reserve(static_cast<std::size_t>(std::count_if(plan.rows.begin(), plan.rows.end(), wants)));
  readings_.clear();
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    if (!wants(row)) continue;
    scheduler::RowResult& into = result.rows.emplace_back();
    into.row = static_cast<std::int32_t>(i);
    if (row.output == Output::kPooled && samples()) {
      const std::span<const float> hidden = decoder_->Hidden(inputs_.FirstOutput(i));
      into.hidden.assign(hidden.begin(), hidden.end());
    }
    if (row.output != Output::kSample && row.output != Output::kScore) continue;
    into.scored.resize(row.output == Output::kSample ? 1 : row.tokens.size());
    for (std::int32_t place = 0; place < static_cast<std::int32_t>(into.scored.size()); ++place) {
      readings_.push_back({into.row, inputs_.FirstOutput(i) + place, place, &into});
    }
  }
}

// Only whole rows of logits that are asked for travel.
Status MeshRank::ReadLogits(const StepPlan& plan, std::span<const float> logits, StepResult& result) {
  const auto vocabulary = static_cast<std::size_t>(limits_.vocabulary);
  const auto own = static_cast<std::size_t>(model_.share().vocabulary.size());
  for (scheduler::RowResult& into : result.rows) {
    const auto row = static_cast<std::size_t>(into.row);
    if (plan.rows[row].output != Output::kLogits) continue;
    const std::size_t positions = plan.rows[row].tokens.size();
    const std::span<const float> mine = logits.subspan(static_cast<std::size_t>(inputs_.FirstOutput(row)) * own, positions * own);
    if (!shares_vocabulary()) {
      into.logits.assign(mine.begin(), mine.end());
      continue;
    }
    for (std::size_t i = 0; i < sizes_.size(); ++i) sizes_[i] = positions * static_cast<std::size_t>(shards_.SizeOf(i)) * sizeof(float);
    gathered_.resize(positions * vocabulary);
    SKEIN_RETURN_IF_ERROR(Gather(std::as_bytes(mine), std::as_writable_bytes(std::span(gathered_))));
    if (!samples()) continue;
    into.logits.resize(positions * vocabulary);
    const float* from = gathered_.data();
    for (std::size_t i = 0; i < shards_.count(); ++i) {
      for (std::size_t position = 0; position < positions; ++position, from += shards_.SizeOf(i)) {
        std::copy_n(from, shards_.SizeOf(i), into.logits.begin() + static_cast<std::ptrdiff_t>(position * vocabulary) + shards_.first[i]);
      }
    }
  }
  return OkStatus();
}

// Rounds of all readings together, until none of them needs a further one.
Status MeshRank::ReadShards(const StepPlan& plan, std::span<const float> logits) {
  for (std::size_t i = 0; i < readings_.size(); ++i) Begin(plan, readings_[i], logits, shard_readings_[i]);
  places_.resize(readings_.size() + 1);
  for (;;) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < readings_.size(); ++i) {
      places_[i] = bytes;
      bytes += shard_readings_[i].message_bytes();
    }
    places_.back() = bytes;
    if (bytes == 0) break;
    message_.resize(bytes);
    messages_.resize(bytes * shards_.count());
    std::fill(sizes_.begin(), sizes_.end(), bytes);
    ForReadings([&](std::size_t i, std::size_t worker) {
      shard_readings_[i].Write(sieves_[worker], std::span(message_).subspan(places_[i], places_[i + 1] - places_[i]));
    });
    SKEIN_RETURN_IF_ERROR(Gather(message_, messages_));
    ForReadings([&](std::size_t i, std::size_t worker) { shard_readings_[i].Read(sieves_[worker], messages_.data() + places_[i], bytes); });
  }
  for (std::size_t i = 0; i < readings_.size(); ++i) {
    readings_[i].into->scored[static_cast<std::size_t>(readings_[i].place)] = shard_readings_[i].TakeScored();
  }
  return OkStatus();
}

Status MeshRank::Gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::int64_t begin = clock_.NowNs();
  SKEIN_RETURN_IF_ERROR(links_.tensor->AllGather(mine, sizes_, all));
  gather_ns_ += static_cast<std::uint64_t>(clock_.NowNs() - begin);
  return OkStatus();
}

// Also a single one goes through the pool: its workers flush denormals, which the bits depend on.
template <typename Function>
void MeshRank::ForReadings(Function&& function) {
  pool_.Run([&](kernels::Worker& worker) {
    for (;;) {
      const auto taken = worker.TakeFrom(0, static_cast<int>(readings_.size()), 1);
      if (taken.begin >= taken.end) return;
      function(static_cast<std::size_t>(taken.begin), static_cast<std::size_t>(worker.index()));
    }
  });
}

SampleWish MeshRank::WishOf(const StepPlan& plan, const Reading& reading) const {
  const auto row_index = static_cast<std::size_t>(reading.plan_row);
  const PlanRow& row = plan.rows[row_index];
  return {.position = row.first_position + static_cast<std::int32_t>(row.tokens.size()),
          .top = row.top,
          .logprob = row.logprob,
          .allowed = masks_[row_index]};
}

void MeshRank::Read(const StepPlan& plan, const Reading& reading, std::span<const float> logits, Sampler& sampler) {
  const auto vocabulary = static_cast<std::size_t>(limits_.vocabulary);
  const PlanRow& row = plan.rows[static_cast<std::size_t>(reading.plan_row)];
  const auto own = logits.subspan(static_cast<std::size_t>(reading.output) * vocabulary, vocabulary);
  const auto place = static_cast<std::size_t>(reading.place);
  reading.into->scored[place] = row.output == Output::kScore ? sampler.Score(own, row.targets[place], row.top)
                                                             : sampler.Sample(own, inputs_.StateOf(row.sequence), WishOf(plan, reading));
}

void MeshRank::Begin(const StepPlan& plan, const Reading& reading, std::span<const float> logits, ShardReading& shard) {
  const auto size = static_cast<std::size_t>(model_.share().vocabulary.size());
  const PlanRow& row = plan.rows[static_cast<std::size_t>(reading.plan_row)];
  const auto own = logits.subspan(static_cast<std::size_t>(reading.output) * size, size);
  if (row.output == Output::kScore) {
    shard.BeginScore(shards_, own, row.targets[static_cast<std::size_t>(reading.place)], row.top);
  } else {
    shard.BeginSample(shards_, own, inputs_.StateOf(row.sequence), WishOf(plan, reading));
  }
}

}  // namespace skein::engine
