// SPDX-License-Identifier: Apache-2.0
//
// PhaseClock says where the time of steps goes: worker 0 of a rank marks the end of each phase, and what went by since the mark before belongs to
// that phase. Marks follow each other without a gap, so what a step's phases do not add up to is what nobody marks: preparing its inputs.
//
// Who wants to know makes one and gives it to the engine (EngineOptions::phases); the first rank marks it. Without one a mark is a pointer that is null.
//
// Thread rule: BeginStep, Skip, Mark and EndStep are for the thread that runs steps; Read is for any, at any time. Steps allocate nothing.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace skein::model {

enum class Phase : std::uint8_t {
  kEmbed,
  kPrepare,       // norms, and rounding to the inputs of matrices
  kQkv,
  kRopeAndStore,  // rotation, and writing keys and values
  kAttention,     // and rounding what it gives
  kOutput,
  kGateUp,        // with SwiGLU and rounding
  kDown,
  kHead,
  kSample,
  kCommunicate,   // with other ranks, and waiting for them
  kBarrier,       // waiting for other workers
};
inline constexpr int kPhases = 12;
std::string_view NameOf(Phase phase);

class PhaseClock {
 public:
  struct Span {
    std::int64_t begin_ns = 0;  // of the steady clock
    std::int64_t length_ns = 0;
    std::int32_t layer = -1;    // -1: of no layer
    Phase phase = Phase::kEmbed;
  };
  struct Totals {
    std::int64_t steps = 0, tokens = 0;
    std::int64_t step_ns = 0;
    std::array<std::int64_t, kPhases> phase_ns = {};
    // The part of the steps' time that no phase has: 0 to 1.
    double Unmarked() const;
  };
  struct Profile {
    Totals prompts;           // steps with a part of a prompt in them
    Totals answers;           // the others: one token for each sequence
    std::vector<Span> spans;  // of the first steps, as many as there is room for
    std::int64_t steps_left_out = 0;
  };

  PhaseClock();

  void BeginStep(std::int32_t tokens, bool prompt);
  // What went by since the last mark belongs to no phase.
  void Skip();
  void EnterLayer(std::int32_t layer) { layer_ = layer; }
  // Does nothing between steps.
  void Mark(Phase phase);
  void EndStep();

  Profile Read() const;

 private:
  // Of the step that runs.
  bool open_ = false, prompt_ = false;
  std::int32_t layer_ = -1, tokens_ = 0;
  std::int64_t begin_ns_ = 0, last_ns_ = 0;
  std::array<std::int64_t, kPhases> phase_ns_ = {};
  std::vector<Span> step_spans_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Profile profile_;
};

}  // namespace skein::model
