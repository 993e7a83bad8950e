// SPDX-License-Identifier: Apache-2.0
#include "engine/step_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace skein::engine {

using scheduler::Output;
using scheduler::PlannedToken;
using scheduler::PlanRow;
using scheduler::StepPlan;

StepInputs::StepInputs(const ExecutorLimits& limits) : limits_(limits) {
  tokens_.reserve(static_cast<std::size_t>(limits.step_tokens));
  rows_.reserve(static_cast<std::size_t>(limits.step_tokens));
  first_outputs_.reserve(static_cast<std::size_t>(limits.step_tokens));
  outputs_.reserve(static_cast<std::size_t>(limits.step_outputs));
  hidden_.reserve(static_cast<std::size_t>(limits.step_outputs));
}

std::string StepInputs::Build(const StepPlan& plan, model::KvStore& kv) {
  if (std::string error = ApplyChanges(plan, kv); !error.empty()) return error;
  tokens_.clear();
  rows_.clear();
  outputs_.clear();
  hidden_.clear();
  first_outputs_.clear();
  for (const PlanRow& row : plan.rows) {
    if (std::string error = AddRow(row); !error.empty()) return error;
  }
  for (const scheduler::GrammarMask& mask : plan.masks) {
    const auto words = (static_cast<std::size_t>(limits_.vocabulary) + 63) / 64;
    if (mask.row < 0 || static_cast<std::size_t>(mask.row) >= plan.rows.size()) return "a mask for no row";
    if (mask.allowed.size() != words) return "a mask of another vocabulary";
  }
  batch_ = {tokens_, rows_, outputs_, hidden_};
  return "";
}

std::string StepInputs::ApplyChanges(const StepPlan& plan, model::KvStore& kv) {
  for (const SequenceId sequence : plan.releases) sequences_.erase(sequence.value);
  for (const scheduler::SequenceStart& start : plan.starts) {
    const auto [place, is_new] = sequences_.try_emplace(start.sequence.value);
    if (!is_new) return fmt::format("sequence {} starts twice", start.sequence.value);
    place->second.sampler = SamplerState(start);
  }
  for (const scheduler::BlockTableChange& change : plan.changes) {
    if (std::string error = ChangeTable(change); !error.empty()) return error;
  }
  for (const scheduler::BlockCopy& copy : plan.copies) {
    if (copy.from.value >= limits_.blocks || copy.to.value >= limits_.blocks) return "a copy of a block outside the pool";
    kv.CopyBlock(copy.from, copy.to);
  }
  return "";
}

std::string StepInputs::ChangeTable(const scheduler::BlockTableChange& change) {
  const auto found = sequences_.find(change.sequence.value);
  if (found == sequences_.end()) return fmt::format("blocks for an unknown sequence {}", change.sequence.value);
  std::vector<BlockId>& blocks = found->second.blocks;
  if (change.keep > blocks.size()) return fmt::format("sequence {} keeps blocks it lacks", change.sequence.value);
  blocks.resize(change.keep);
  for (const scheduler::BlockRun& run : change.append) {
    if (std::uint64_t{run.first.value} + run.count > limits_.blocks) return "a block outside the pool";
    if (blocks.size() + run.count > limits_.blocks) return "a table longer than the pool";
    for (std::uint32_t i = 0; i < run.count; ++i) blocks.push_back({run.first.value + i});
  }
  return "";
}

TokenId StepInputs::Resolve(const PlannedToken& token) const {
  TokenId id = token.literal;
  if (token.row != PlannedToken::kLiteral) {
    id = -1;
    for (const Sampled& step : sampled_) {
      if (step.step != token.step || token.row < 0 || static_cast<std::size_t>(token.row) >= step.tokens.size()) continue;
      id = step.tokens[static_cast<std::size_t>(token.row)];
    }
  }
  return id >= 0 && id < limits_.vocabulary ? id : -1;
}

std::string StepInputs::AddRow(const PlanRow& row) {
  const auto found = sequences_.find(row.sequence.value);
  if (found == sequences_.end()) return fmt::format("a row of an unknown sequence {}", row.sequence.value);
  const std::vector<BlockId>& blocks = found->second.blocks;
  const std::size_t count = row.tokens.size();
  const std::size_t end = static_cast<std::size_t>(std::max(0, row.first_position)) + count;
  if (count == 0) return fmt::format("a row without tokens of sequence {}", row.sequence.value);
  if (row.first_position < 0 || end > static_cast<std::size_t>(limits_.context)) return "a position outside the context";
  if (end > blocks.size() * static_cast<std::size_t>(limits_.block_tokens)) {
    return fmt::format("sequence {} lacks blocks", row.sequence.value);
  }
  if (tokens_.size() + count > static_cast<std::size_t>(limits_.step_tokens)) return "a plan of too many tokens";
  if (row.adapter != 0) return "adapters are not computed yet";

  const auto first_token = static_cast<std::int32_t>(tokens_.size());
  for (const PlannedToken& token : row.tokens) {
    const TokenId id = Resolve(token);
    if (id < 0) return fmt::format("a token of sequence {} that is none", row.sequence.value);
    tokens_.push_back(id);
  }
  rows_.push_back({first_token, static_cast<std::int32_t>(count), row.first_position, blocks});
  first_outputs_.push_back(static_cast<std::int32_t>(row.output == Output::kPooled ? hidden_.size() : outputs_.size()));
  const auto last = static_cast<std::int32_t>(tokens_.size()) - 1;
  switch (row.output) {
    case Output::kNone:
      return "";
    case Output::kSample:
      outputs_.push_back(last);
      break;
    case Output::kScore:
      if (row.targets.size() != count) return "scores with another number of targets than tokens";
      for (const TokenId target : row.targets) {
        if (target < 0 || target >= limits_.vocabulary) return "a target that is no token";
      }
      [[fallthrough]];
    case Output::kLogits:
      for (std::int32_t token = first_token; token <= last; ++token) outputs_.push_back(token);
      break;
    case Output::kPooled:
      hidden_.push_back(last);
      break;
    case Output::kHidden:
      return "hidden states are not computed yet";
  }
  if (outputs_.size() + hidden_.size() > static_cast<std::size_t>(limits_.step_outputs)) return "a plan of too many outputs";
  return "";
}

void StepInputs::Remember(StepId step, std::vector<TokenId> sampled) {
  if (sampled_.size() == kRemembered) sampled_.erase(sampled_.begin());
  sampled_.push_back({step, std::move(sampled)});
}

}  // namespace skein::engine
