// SPDX-License-Identifier: Apache-2.0
//
// Machine is EngineOptions after their words were understood: what `auto` leaves open is still open here, what was
// named is known to exist on this machine.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "kernels/arithmetic.h"
#include "kernels/attention/attention.h"
#include "model/model.h"
#include "skein/options.h"

namespace skein::api {

struct Machine {
  int threads = 1;
  std::optional<kernels::Arithmetic> arithmetic;
  std::optional<kernels::KernelPath> path;
  std::optional<kernels::KvType> kv_type;
  int context = 0;      // 0: the model's, or what memory holds
  int step_tokens = 512;
  int step_outputs = 64;
  int sequences = 64;
  std::uint64_t kv_tokens = 0;  // 0: one context
};

// Errors: kInvalidArgument for a name that nothing has, kMissing for kernels that this processor cannot run.
Result<Machine> ResolveMachine(const EngineOptions& options);

// What memory a model needs when run so, with a KV cache for `tokens` of one sequence.
model::MemoryQuestion MemoryQuestionOf(const Machine& machine, std::uint64_t tokens);

}  // namespace skein::api
