// SPDX-License-Identifier: Apache-2.0
//
// Kinds of frames and the version of their fields.
#include "scheduler/step_wire.h"

#include "scheduler/step_fields.h"

namespace skein::scheduler {
namespace {

constexpr std::uint32_t kMagic = 0x54534B53;  // "SKST"
constexpr std::uint16_t kVersion = 2;
constexpr wire::FrameKind kPlan{kMagic, kVersion, 1};
constexpr wire::FrameKind kResult{kMagic, kVersion, 2};
constexpr wire::FrameKind kSequence{kMagic, kVersion, 3};

}  // namespace

std::vector<std::byte> EncodePlan(const StepPlan& plan) { return wire::Encode(kPlan, plan); }
std::vector<std::byte> EncodeResult(const StepResult& result) { return wire::Encode(kResult, result); }
std::vector<std::byte> EncodeSequence(const SequenceState& sequence) { return wire::Encode(kSequence, sequence); }

Result<StepPlan> DecodePlan(std::span<const std::byte> bytes) { return wire::Decode<StepPlan>(kPlan, bytes); }
Result<StepResult> DecodeResult(std::span<const std::byte> bytes) { return wire::Decode<StepResult>(kResult, bytes); }
Result<SequenceState> DecodeSequence(std::span<const std::byte> bytes) {
  return wire::Decode<SequenceState>(kSequence, bytes);
}

}  // namespace skein::scheduler
