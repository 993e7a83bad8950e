// SPDX-License-Identifier: Apache-2.0
//
// How sequences come and go, and how a step's result is taken in.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace skein::scheduler {
namespace {

SchedulerLimits Checked(SchedulerLimits limits) {
  SKEIN_CHECK(limits.vocabulary > 0);
  SKEIN_CHECK(limits.context > 0);
  SKEIN_CHECK(limits.blocks > 0);
  SKEIN_CHECK(limits.block_tokens > 0);
  SKEIN_CHECK(limits.step_tokens > 0);
  SKEIN_CHECK(limits.step_outputs > 0);
  SKEIN_CHECK(limits.sequences > 0);
  SKEIN_CHECK(limits.plans_in_flight > 0);
  limits.sequences = std::min({limits.sequences, limits.step_tokens, limits.step_outputs});
  return limits;
}

Status CheckIds(const std::vector<TokenId>& ids, std::int32_t vocabulary, const char* field) {
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocabulary) {
      return LimitExceeded(fmt::format("token id {} is outside the vocabulary of {}", id, vocabulary), field);
    }
  }
  return OkStatus();
}

Status CheckSampling(const SamplingParameters& sampling, std::int32_t vocabulary) {
  // Written so that NaN fails.
  if (!(sampling.temperature >= 0 && std::isfinite(sampling.temperature))) {
    return InvalidArgument(fmt::format("temperature is {}, expected 0 or more", sampling.temperature), "temperature");
  }
  if (sampling.top_k < 0) {
    return InvalidArgument(fmt::format("top_k is {}, expected 0 (off) or more", sampling.top_k), "top_k");
  }
  if (!(sampling.top_p >= 0 && sampling.top_p <= 1)) {
    return InvalidArgument(fmt::format("top_p is {}, expected 0 to 1", sampling.top_p), "top_p");
  }
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) {
    return InvalidArgument(fmt::format("min_p is {}, expected 0 to 1", sampling.min_p), "min_p");
  }
  if (!(sampling.repetition_penalty > 0 && std::isfinite(sampling.repetition_penalty))) {
    return InvalidArgument(fmt::format("repetition_penalty is {}, expected more than 0", sampling.repetition_penalty),
                           "repetition_penalty");
  }
  if (!std::isfinite(sampling.frequency_penalty)) {
    return InvalidArgument("frequency_penalty is not a number", "frequency_penalty");
  }
  if (!std::isfinite(sampling.presence_penalty)) {
    return InvalidArgument("presence_penalty is not a number", "presence_penalty");
  }
  for (const auto& [token, value] : sampling.bias) {
    if (token < 0 || token >= vocabulary) {
      return LimitExceeded(fmt::format("token id {} is outside the vocabulary of {}", token, vocabulary), "logit_bias");
    }
    if (!std::isfinite(value)) return InvalidArgument("a logit bias is not a number", "logit_bias");
  }
  return OkStatus();
}

}  // namespace

Scheduler::Scheduler(SchedulerLimits limits, const Policy& policy)
    : limits_(Checked(limits)),
      policy_(policy),
      capacity_(static_cast<std::int32_t>(
          std::min(std::int64_t{limits.context}, std::int64_t{limits.blocks} * limits.block_tokens))),
      index_(limits.prefix_cache ? std::make_unique<PrefixIndex>(limits.blocks, limits.block_tokens, limits.prefix_secret,
                                                                 limits.prefix_fingerprint)
                                 : nullptr),
      pool_(limits.blocks, index_.get()),
      cost_(limits.cost),
      flights_(static_cast<std::size_t>(limits.plans_in_flight)) {
  running_.reserve(static_cast<std::size_t>(limits_.sequences));
  for (Flight& flight : flights_) flight.plan.rows.reserve(static_cast<std::size_t>(limits_.sequences));
}

Scheduler::~Scheduler() = default;

Status Scheduler::CheckFor(const SequenceState& state, std::int32_t vocabulary, std::int32_t capacity) {
  if (state.tokens.empty()) return InvalidArgument("the prompt is empty; it needs at least one token", "prompt");
  const auto size = static_cast<std::int64_t>(state.tokens.size());
  if (size > capacity) {
    return LimitExceeded(fmt::format("prompt has {} tokens, limit is {}; raise --context", size, capacity), "prompt");
  }
  if (state.prompt_tokens < 1 || state.prompt_tokens > size) {
    return InvalidArgument(fmt::format("prompt_tokens is {}, expected 1 to {}", state.prompt_tokens, size),
                           "prompt_tokens");
  }
  if (state.max_tokens < 0) {
    return InvalidArgument(fmt::format("max_tokens is {}, expected 0 or more", state.max_tokens), "max_tokens");
  }
  if (state.prompt_output == PromptOutput::kPooled && state.max_tokens > 0) {
    return InvalidArgument("an embedding goes with max_tokens 0: it is of the prompt alone", "max_tokens");
  }
  if (state.generated() < state.max_tokens && size >= capacity) {
    return LimitExceeded(
        fmt::format("prompt has {} tokens and leaves no room for an answer, limit is {}; raise --context", size,
                    capacity),
        "prompt");
  }
  if (state.top_logprobs < 0 || state.top_logprobs > vocabulary) {
    return InvalidArgument(
        fmt::format("top_logprobs is {}, expected 0 to {}", state.top_logprobs, vocabulary), "top_logprobs");
  }
  SKEIN_RETURN_IF_ERROR(CheckIds(state.tokens, vocabulary, "prompt"));
  SKEIN_RETURN_IF_ERROR(CheckIds(state.stop_tokens, vocabulary, "stop_tokens"));
  return CheckSampling(state.sampling, vocabulary);
}

Status Scheduler::Add(SequenceState state, std::int64_t now_ns) {
  SKEIN_RETURN_IF_ERROR(Check(state));
  const SequenceId id = state.sequence;
  SKEIN_CHECK(!sequences_.contains(id));
  auto sequence = std::make_unique<Sequence>(std::move(state), pool_);
  const SequenceState& kept = sequence->state;
  sequence->candidate = {.sequence = id,
                         .arrival = ++arrivals_,
                         .arrival_ns = now_ns,
                         .priority = kept.priority,
                         .deadline_ns = kept.deadline_ns,
                         .tokens = sequence->size(),
                         .tokens_left = std::max(kept.max_tokens - kept.generated(), 0)};
  if (index_ != nullptr) sequence->root = index_->RootOf(kept.tenant, kept.cache_salt, /*adapter=*/0);
  if (policy_.RefusesLate()) {
    if (const Status status = CheckDeadline(*sequence, now_ns); !status.ok()) {
      ++counts_.refusals;
      return status;
    }
  }
  sequence->tenant = &tenants_.Join(kept.tenant);
  has_deadlines_ = has_deadlines_ || kept.deadline_ns != 0;
  waiting_.push_back(sequence.get());
  sequences_.emplace(id, std::move(sequence));
  return OkStatus();
}

const SequenceState* Scheduler::Find(SequenceId sequence) const {
  const auto found = sequences_.find(sequence);
  return found == sequences_.end() ? nullptr : &found->second->state;
}

std::uint64_t Scheduler::UnusedPlaces() const {
  std::uint64_t unused = 0;
  for (const Sequence* sequence : running_) {
    const std::int64_t places = std::int64_t{sequence->table.count()} * limits_.block_tokens;
    unused += static_cast<std::uint64_t>(std::max<std::int64_t>(places - sequence->size(), 0));
  }
  return unused;
}

void Scheduler::CheckBlocks() const {
  std::vector<std::uint32_t> holders(limits_.blocks, 0);
  for (const auto& [id, sequence] : sequences_) {
    SKEIN_CHECK(sequence->running || sequence->table.count() == 0);
    for (std::uint32_t i = 0; i < sequence->table.count(); ++i) {
      const BlockId block = sequence->table.block(i);
      ++holders[block.value];
      SKEIN_CHECK(index_ == nullptr || index_->Contains(block) == (i < sequence->indexed));
    }
  }
  std::uint32_t held = 0, cached = 0;
  for (std::uint32_t i = 0; i < limits_.blocks; ++i) {
    SKEIN_CHECK(holders[i] == pool_.holders({i}));
    const bool is_entry = index_ != nullptr && index_->Contains({i});
    SKEIN_CHECK(pool_.IsFree({i}) == (holders[i] == 0 && !is_entry));
    held += holders[i] > 0 ? 1 : 0;
    cached += holders[i] == 0 && is_entry ? 1 : 0;
  }
  SKEIN_CHECK(held == pool_.held_count());
  SKEIN_CHECK(cached == pool_.cached_count());
  SKEIN_CHECK(held + cached + pool_.free_count() == limits_.blocks);
}

void Scheduler::Cancel(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  End(*found->second, FinishReason::kCancelled);
}

// Finishes it now, or once its rows in flight are back: ranks are still reading its blocks.
void Scheduler::End(Sequence& sequence, FinishReason reason, std::string error) {
  if (sequence.rows_in_flight == 0) {
    Finish(sequence, reason, std::move(error));
  } else if (sequence.ends == FinishReason::kNone) {
    sequence.ends = reason;
    sequence.end_error = std::move(error);
  }
}

void Scheduler::SetPaused(SequenceId id, bool paused) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  if (found->second->paused == paused) return;
  found->second->paused = paused;
  paused ? ++paused_count_ : --paused_count_;
}

void Scheduler::ExpireDeadlines(std::int64_t now_ns) {
  if (!has_deadlines_) return;
  std::vector<Sequence*> expired;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->state.deadline_ns != 0 && sequence->state.deadline_ns <= now_ns) expired.push_back(sequence.get());
  }
  // In order of arrival, since the map has none of its own.
  std::sort(expired.begin(), expired.end(),
            [](const Sequence* a, const Sequence* b) { return a->candidate.arrival < b->candidate.arrival; });
  for (Sequence* sequence : expired) End(*sequence, FinishReason::kError, "the request's deadline has passed");
}

void Scheduler::Commit(const StepPlan& plan, StepResult&& result) {
  SKEIN_CHECK(in_flight_ > 0);
  const Flight& flight = flights_[first_flight_];
  SKEIN_CHECK(plan.step == flight.plan.step);
  first_flight_ = (first_flight_ + 1) % flights_.size();
  --in_flight_;
  std::string error = std::move(result.error);
  if (flight.is_void) {
    GiveUp(flight.plan, "");
    return;
  }
  if (error.empty()) error = WhyUnfit(flight.plan, result);
  if (!error.empty()) {
    for (std::size_t i = 0; i < in_flight_; ++i) flights_[(first_flight_ + i) % flights_.size()].is_void = true;
    GiveUp(flight.plan, error);
    return;
  }
  if (result.compute_ns > 0) cost_.Learn(ShapeOf(flight.plan), static_cast<double>(result.compute_ns));
  std::size_t next_result = 0;
  for (const PlanRow& row : flight.plan.rows) {
    Sequence& sequence = TakeBack(row);
    RowResult* row_result = row.output == Output::kNone ? nullptr : &result.rows[next_result++];
    if (sequence.ends == FinishReason::kNone) {
      CommitRow(sequence, row, row_result);
    } else if (sequence.rows_in_flight == 0) {
      Finish(sequence, sequence.ends, std::move(sequence.end_error));
    }
  }
}

// The sequence of a row whose plan has come back.
Scheduler::Sequence& Scheduler::TakeBack(const PlanRow& row) {
  Sequence& sequence = *sequences_.at(row.sequence);
  --sequence.rows_in_flight;
  if (row.output != Output::kNone) sequence.awaits = false;
  return sequence;
}

// Nothing of the plan counts: it failed with `error`, which ends its sequences, or (empty) one before it did. What ranks hold
// of its sequences then is unknown, so they give way and are computed anew, which changes no answer.
void Scheduler::GiveUp(const StepPlan& plan, const std::string& error) {
  // Whether ranks applied releases and changes is unknown: they are sent again.
  releases_.insert(releases_.end(), plan.releases.begin(), plan.releases.end());
  for (const PlanRow& row : plan.rows) {
    Sequence& sequence = TakeBack(row);
    if (!error.empty()) {
      End(sequence, FinishReason::kError, error);
    } else if (sequence.rows_in_flight > 0) {
      continue;
    } else if (sequence.ends != FinishReason::kNone) {
      Finish(sequence, sequence.ends, std::move(sequence.end_error));
    } else {
      Preempt(sequence);
      std::erase(running_, &sequence);
    }
  }
  for (const BlockTableChange& change : plan.changes) {
    const auto found = sequences_.find(change.sequence);
    if (found != sequences_.end()) found->second->blocks_sent = std::min(found->second->blocks_sent, change.keep);
  }
}

// Empty when the result has just what the plan asked for. Ranks may be other processes, so this is not a check.
std::string Scheduler::WhyUnfit(const StepPlan& plan, const StepResult& result) const {
  if (result.step != plan.step) {
    return fmt::format("a result of step {} came for step {}", result.step.value, plan.step.value);
  }
  std::size_t next_result = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    if (row.output == Output::kNone) continue;
    if (next_result == result.rows.size()) return fmt::format("the step's result lacks row {}", i);
    const RowResult& got = result.rows[next_result++];
    if (got.row != static_cast<std::int32_t>(i)) return fmt::format("the step's result has row {} for row {}", got.row, i);
    const std::size_t scored = row.output == Output::kSample ? 1 : row.output == Output::kScore ? row.tokens.size() : 0;
    const std::size_t logits =
        row.output == Output::kLogits ? row.tokens.size() * static_cast<std::size_t>(limits_.vocabulary) : 0;
    if (got.hidden.empty() != (row.output != Output::kPooled)) {
      return fmt::format("row {} of the step's result has a vector of {} numbers", i, got.hidden.size());
    }
    if (got.scored.size() != scored || got.logits.size() != logits) {
      return fmt::format("row {} of the step's result has {} tokens and {} logits, expected {} and {}", i,
                         got.scored.size(), got.logits.size(), scored, logits);
    }
    for (const ScoredToken& token : got.scored) {
      if (token.token < 0 || token.token >= limits_.vocabulary) {
        return fmt::format("row {} of the step's result has token {} of a vocabulary of {}", i, token.token,
                           limits_.vocabulary);
      }
    }
  }
  if (next_result != result.rows.size()) return "the step's result has rows that nobody asked for";
  return "";
}

void Scheduler::CommitRow(Sequence& sequence, const PlanRow& row, RowResult* result) {
  sequence.computed += static_cast<std::int32_t>(row.tokens.size());
  if (row.output == Output::kScore || row.output == Output::kLogits) {
    SchedulerEvent& event = events_.emplace_back();
    event.kind = SchedulerEvent::Kind::kPrompt;
    event.sequence = row.sequence;
    event.first_position = row.first_position;
    event.scores = std::move(result->scored);
    event.logits = std::move(result->logits);
    sequence.reported = sequence.computed;
    // The last position's logits are reported and still to be sampled from: it is computed once more.
    if (!sequence.reports() && sequence.computed == sequence.size() && sequence.generates()) {
      --sequence.computed;
      --sequence.taken;
    }
  }
  if (row.output == Output::kPooled) {
    SchedulerEvent& event = events_.emplace_back();
    event.kind = SchedulerEvent::Kind::kPrompt;
    event.sequence = row.sequence;
    event.first_position = row.first_position + static_cast<std::int32_t>(row.tokens.size()) - 1;
    event.hidden = std::move(result->hidden);
  }
  IndexComputed(sequence);
  if (row.output == Output::kSample) {
    CommitToken(sequence, std::move(result->scored.front()));
  } else if (!sequence.generates() && !sequence.reports() &&
             (sequence.computed == sequence.size() || row.output == Output::kScore)) {
    Finish(sequence, FinishReason::kLength);  // nothing is to be generated; the last position has no score
  }
}

void Scheduler::CommitToken(Sequence& sequence, ScoredToken token) {
  SequenceState& state = sequence.state;
  const TokenId id = token.token;
  const std::int32_t index = state.generated();
  SchedulerEvent& event = events_.emplace_back();
  event.kind = SchedulerEvent::Kind::kToken;
  event.sequence = state.sequence;
  event.index = index;
  event.token = std::move(token);
  state.tokens.push_back(id);
  sequence.charged = sequence.size();
  sequence.tenant->service += Tenants::kGeneratedToken;
  sequence.candidate.tokens = sequence.size();
  sequence.candidate.tokens_left = state.max_tokens - state.generated();
  const bool stops = !state.ignore_stop_tokens && index >= state.min_tokens &&
                     std::find(state.stop_tokens.begin(), state.stop_tokens.end(), id) != state.stop_tokens.end();
  if (stops) {
    Finish(sequence, FinishReason::kStop);
  } else if (!sequence.generates() || sequence.size() >= capacity_) {
    Finish(sequence, FinishReason::kLength);
  }
}

// Reports the end and drops the sequence; `sequence` is gone afterwards.
void Scheduler::Finish(Sequence& sequence, FinishReason reason, std::string error) {
  SchedulerEvent& event = events_.emplace_back();
  event.kind = SchedulerEvent::Kind::kFinished;
  event.sequence = sequence.state.sequence;
  event.reason = reason;
  event.error = std::move(error);
  event.generated = sequence.state.generated();
  event.cached = std::max(sequence.cached_tokens, 0);
  if (sequence.paused) --paused_count_;
  Forget(sequence);
  std::erase(sequence.running ? running_ : waiting_, &sequence);
  tenants_.Leave(sequence.state.tenant);
  sequences_.erase(sequence.state.sequence);
}

}  // namespace skein::scheduler
