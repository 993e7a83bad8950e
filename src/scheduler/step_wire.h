// SPDX-License-Identifier: Apache-2.0
//
// The wire form of what travels between an engine and ranks in other processes, and of a sequence that moves: a frame of
// base/wire.h (magic, version, kind, length, checksum) around the fields of step_fields.h. Decoding what was encoded
// gives an equal value; decoding anything else gives a Status, and never takes much more memory than the bytes it was given.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "scheduler/sequence_state.h"
#include "scheduler/step_plan.h"

namespace skein::scheduler {

std::vector<std::byte> EncodePlan(const StepPlan& plan);
std::vector<std::byte> EncodeResult(const StepResult& result);
std::vector<std::byte> EncodeSequence(const SequenceState& sequence);

// Errors: kInvalidFile. The values inside are not judged (a block may be outside the pool): the reader does.
Result<StepPlan> DecodePlan(std::span<const std::byte> bytes);
Result<StepResult> DecodeResult(std::span<const std::byte> bytes);
Result<SequenceState> DecodeSequence(std::span<const std::byte> bytes);

}  // namespace skein::scheduler
