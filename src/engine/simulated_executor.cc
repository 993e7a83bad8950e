// SPDX-License-Identifier: Apache-2.0
//
// A step without arithmetic: the rules of plans are checked, hashes stand for hidden states.
#include "engine/simulated_executor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace skein::engine {
namespace {

constexpr TokenId kHiddenSize = 8;  // of what stands for a hidden state

using scheduler::Output;
using scheduler::PlanRow;
using scheduler::ScoredToken;

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t Mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

std::uint64_t Extend(std::uint64_t hash, TokenId token) {
  return Mix(hash ^ (static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)) + 1));
}

// A stand-in for the log-probability or logit of a token, in (-8, 0].
float Score(std::uint64_t hash, TokenId token) {
  return -static_cast<float>(Extend(~hash, token) >> 40) * (8.0f / (1 << 24));
}

TokenId TokenOf(std::uint64_t hash, std::uint64_t seed, std::int32_t choice, std::int32_t vocabulary) {
  const std::uint64_t draw = Mix(Mix(hash ^ seed) + static_cast<std::uint32_t>(choice));
  return static_cast<TokenId>(draw % static_cast<std::uint64_t>(vocabulary));
}

}  // namespace

SimulatedExecutor::SimulatedExecutor(ExecutorLimits limits, scheduler::StepCost cost, ManualClock* clock, std::int32_t stages)
    : limits_(limits), cost_(cost), clock_(clock), blocks_(limits.blocks),
      places_(limits.blocks * static_cast<std::size_t>(limits.block_tokens)), stages_(stages) {}

void SimulatedExecutor::FailStep(StepId step, std::string error) { failures_[step.value] = std::move(error); }

TokenId SimulatedExecutor::NextToken(const std::vector<TokenId>& tokens, std::uint64_t seed, std::int32_t choice) const {
  std::uint64_t hash = 0;
  for (const TokenId token : tokens) hash = Extend(hash, token);
  return TokenOf(hash, seed, choice, limits_.vocabulary);
}

void SimulatedExecutor::Submit(const scheduler::StepPlan& plan) {
  SKEIN_CHECK(results_.size() < static_cast<std::size_t>(limits_.plans_in_flight));
  if (spares_.empty()) spares_.emplace_back();
  scheduler::StepResult& result = results_.emplace_back(std::move(spares_.back()));
  spares_.pop_back();
  result.error.clear();
  result.step = plan.step;
  const auto cost_ns = static_cast<std::int64_t>(cost_.Predict(scheduler::ShapeOf(plan)));
  result.compute_ns = static_cast<std::uint64_t>(cost_ns);
  ready_ns_.push_back(stages_.Pass(clock_ != nullptr ? clock_->NowNs() : now_ns_, cost_ns));
  if (const auto failure = failures_.find(plan.step.value); failure != failures_.end()) {
    result.error = failure->second;
    return;
  }
  result.error = Apply(plan);
  if (result.error.empty()) result.error = Compute(plan, result);
  if (!result.error.empty()) result.rows.clear();
}

scheduler::StepResult SimulatedExecutor::Wait() {
  SKEIN_CHECK(!results_.empty());
  scheduler::StepResult result = std::move(results_.front());
  results_.erase(results_.begin());
  const std::int64_t ready_ns = ready_ns_.front();
  ready_ns_.erase(ready_ns_.begin());
  now_ns_ = std::max(now_ns_, ready_ns);
  if (clock_ != nullptr) clock_->Advance(std::max<std::int64_t>(ready_ns - clock_->NowNs(), 0));
  return result;
}

void SimulatedExecutor::Recycle(scheduler::StepResult result) {
  for (scheduler::RowResult& row : result.rows) spare_rows_.push_back(std::move(row));
  result.rows.clear();
  spares_.push_back(std::move(result));
}

scheduler::RowResult& SimulatedExecutor::NextRow(scheduler::StepResult& result) {
  if (spare_rows_.empty()) return result.rows.emplace_back();
  scheduler::RowResult& row = result.rows.emplace_back(std::move(spare_rows_.back()));
  spare_rows_.pop_back();
  row.scored.clear();
  row.logits.clear();
  row.hidden.clear();
  return row;
}

void SimulatedExecutor::DropFrom(std::vector<BlockId>& blocks, std::size_t begin) {
  for (std::size_t i = begin; i < blocks.size(); ++i) --blocks_[blocks[i].value].tables;
  blocks.resize(begin);
}

void SimulatedExecutor::Forget(SequenceId sequence) {
  const auto found = sequences_.find(sequence.value);
  if (found == sequences_.end()) return;
  DropFrom(found->second.blocks, 0);
  sequences_.erase(found);
}

std::string SimulatedExecutor::Apply(const scheduler::StepPlan& plan) {
  for (const SequenceId sequence : plan.releases) Forget(sequence);
  for (const scheduler::SequenceStart& start : plan.starts) {
    const auto [place, is_new] = sequences_.try_emplace(start.sequence.value);
    if (!is_new) return fmt::format("sequence {} starts twice", start.sequence.value);
    place->second.start = start;
    place->second.blocks.reserve(static_cast<std::size_t>(limits_.context / limits_.block_tokens) + 1);
  }
  for (const scheduler::BlockTableChange& change : plan.changes) {
    if (std::string error = ChangeTable(change); !error.empty()) return error;
  }
  return "";
}

std::string SimulatedExecutor::ChangeTable(const scheduler::BlockTableChange& change) {
  const auto found = sequences_.find(change.sequence.value);
  if (found == sequences_.end()) return fmt::format("blocks for an unknown sequence {}", change.sequence.value);
  std::vector<BlockId>& blocks = found->second.blocks;
  if (change.keep > blocks.size()) return fmt::format("sequence {} keeps blocks it lacks", change.sequence.value);
  DropFrom(blocks, change.keep);
  for (const scheduler::BlockRun& run : change.append) {
    if (std::uint64_t{run.first.value} + run.count > limits_.blocks) return "a block outside the pool";
    if (blocks.size() + run.count > limits_.blocks) return "a table longer than the pool";
    for (std::uint32_t i = 0; i < run.count; ++i) {
      const BlockId block{run.first.value + i};
      ++blocks_[block.value].tables;
      blocks.push_back(block);
    }
  }
  return "";
}

// Follows the sequence's blocks up to position `first`; `hash` becomes that of the tokens before it.
std::string SimulatedExecutor::ReadPast(const Sequence& sequence, std::size_t first, std::uint64_t& hash) const {
  const auto block_tokens = static_cast<std::size_t>(limits_.block_tokens);
  hash = 0;
  for (std::size_t begin = 0, i = 0; begin < first; begin += block_tokens, ++i) {
    const BlockId id = sequence.blocks[i];
    const Block& block = blocks_[id.value];
    const std::size_t wanted = std::min(block_tokens, first - begin);
    if (static_cast<std::size_t>(block.written) < wanted) return fmt::format("a gap in block {}", id.value);
    if (block.before != hash) return fmt::format("block {} holds another prefix than its sequence's", id.value);
    hash = places_[id.value * block_tokens + wanted - 1];
  }
  return "";
}

std::string SimulatedExecutor::Write(const Sequence& sequence, std::size_t position, std::uint64_t before,
                                     std::uint64_t hash) {
  const auto block_tokens = static_cast<std::size_t>(limits_.block_tokens);
  const BlockId id = sequence.blocks[position / block_tokens];
  Block& block = blocks_[id.value];
  const std::size_t slot = position % block_tokens;
  if (block.tables != 1) return fmt::format("a write to block {}, which {} sequences hold", id.value, block.tables);
  if (slot == 0) block.before = before;
  places_[id.value * block_tokens + slot] = hash;
  block.written = static_cast<std::int32_t>(slot) + 1;  // as in the KV store, the first token clears the rest
  return "";
}

std::string SimulatedExecutor::Compute(const scheduler::StepPlan& plan, scheduler::StepResult& result) {
  const scheduler::StepShape shape = scheduler::ShapeOf(plan);
  if (shape.tokens > limits_.step_tokens) return fmt::format("a plan of {} tokens", shape.tokens);
  if (shape.outputs > limits_.step_outputs) return fmt::format("a plan of {} outputs", shape.outputs);
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    const PlanRow& row = plan.rows[r];
    for (std::size_t other = 0; other < r; ++other) {
      if (plan.rows[other].sequence == row.sequence) return fmt::format("two rows of sequence {}", row.sequence.value);
    }
    const auto found = sequences_.find(row.sequence.value);
    if (found == sequences_.end()) return fmt::format("a row of an unknown sequence {}", row.sequence.value);
    const Sequence& sequence = found->second;
    if (row.first_position < 0) return "a position before the first";
    const auto first = static_cast<std::size_t>(row.first_position);
    const std::size_t end = first + row.tokens.size();
    if (row.tokens.empty()) return fmt::format("a row without tokens of sequence {}", row.sequence.value);
    if (end > sequence.blocks.size() * static_cast<std::size_t>(limits_.block_tokens)) {
      return fmt::format("sequence {} lacks blocks", row.sequence.value);
    }
    if (end > static_cast<std::size_t>(limits_.context)) return "a position outside the context";
    std::uint64_t hash = 0;
    if (std::string error = ReadPast(sequence, first, hash); !error.empty()) return error;
    scheduler::RowResult* into = row.output == Output::kNone ? nullptr : &NextRow(result);
    if (into != nullptr) into->row = static_cast<std::int32_t>(r);
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      const std::uint64_t before = hash;
      hash = Extend(before, row.tokens[i].literal);
      if (std::string error = Write(sequence, first + i, before, hash); !error.empty()) return error;
      if (row.output == Output::kScore) into->scored.push_back(Scored(hash, row.targets[i], row.top));
      if (row.output == Output::kLogits) {
        for (TokenId token = 0; token < limits_.vocabulary; ++token) into->logits.push_back(Score(hash, token));
      }
    }
    if (row.output == Output::kSample) into->scored.push_back(Sampled(sequence, hash, row));
    if (row.output == Output::kPooled) {
      for (TokenId i = 0; i < kHiddenSize; ++i) into->hidden.push_back(Score(hash, i));
    }
  }
  return "";
}

ScoredToken SimulatedExecutor::Sampled(const Sequence& sequence, std::uint64_t hash, const PlanRow& row) const {
  const scheduler::SequenceStart& start = sequence.start;
  ScoredToken scored;
  scored.token = TokenOf(hash, start.sampling.seed, start.choice, limits_.vocabulary);
  const std::int32_t generated = row.first_position + static_cast<std::int32_t>(row.tokens.size()) - start.prompt_tokens;
  if (generated < start.min_tokens && limits_.vocabulary > static_cast<std::int32_t>(start.stop_tokens.size())) {
    while (std::find(start.stop_tokens.begin(), start.stop_tokens.end(), scored.token) != start.stop_tokens.end()) {
      scored.token = (scored.token + 1) % limits_.vocabulary;
    }
  }
  if (row.logprob) scored.logprob = Score(hash, scored.token);
  AddTop(hash, row.top, scored);
  return scored;
}

ScoredToken SimulatedExecutor::Scored(std::uint64_t hash, TokenId target, std::int32_t top) const {
  ScoredToken scored;
  scored.token = target;
  scored.logprob = Score(hash, target);
  AddTop(hash, top, scored);
  return scored;
}

void SimulatedExecutor::AddTop(std::uint64_t hash, std::int32_t top, ScoredToken& scored) const {
  if (top == 0) return;
  std::vector<scheduler::TokenLogprob> all;
  for (TokenId token = 0; token < limits_.vocabulary; ++token) all.push_back({token, Score(hash, token)});
  const auto end = all.begin() + std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(all.size()));
  std::partial_sort(all.begin(), end, all.end(), [](const auto& a, const auto& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
  });
  scored.top.assign(all.begin(), end);
}

}  // namespace skein::engine
