// SPDX-License-Identifier: Apache-2.0
//
// PromptBudget: how many tokens of prompts go into a step beside its answers. While answers run, a step is to take no
// longer than max(4 times the answers alone, a target): too long and answers stutter, too short and prompts pay for the
// weights again and again. The scheduler cuts by it, and the forecast of deadlines with it.
#pragma once

#include <cstdint>

#include "scheduler/step_cost.h"

namespace skein::scheduler {

// `answers`: the step without prompts. `position`: how deep in its context the first prompt is. `tokens`: what the step
// has room for. Whole multiples of 16 tokens and at least 16, from 256 on of 64; all of `tokens` when no answer is in the
// step or `target_ns` is 0.
std::int64_t PromptBudget(const StepCost& cost, const StepShape& answers, std::int64_t position, std::int64_t tokens,
                          std::int64_t target_ns);

// How many tokens a plan takes of prompts when plans in flight share them: `part` of them in whole multiples of 16, or as
// many as take as long as the weights' way from memory, when that is more: smaller chunks would only make that way more
// often.
std::int64_t PromptPart(const StepCost& cost, std::int64_t part);

}  // namespace skein::scheduler
