// SPDX-License-Identifier: Apache-2.0
//
// MakeModel writes a GGUF model of a known shape with random weights: `skein make-model`, for measuring speed and for
// tests where no trained model is at hand. Its text is nonsense; its logits are finite and of ordinary size. Two calls
// with the same options write the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace skein::formats {

struct MakeModelOptions {
  std::string shape = "135m";  // one of MakeModelShapes()
  DType format = DType::kQ4_0;
  std::uint64_t seed = 1;
  std::string path;
  std::function<void(std::uint64_t done_bytes, std::uint64_t all_bytes)> progress;  // may be empty
};

// Names of the shapes: "tiny", "135m", "1b", "7b".
std::vector<std::string> MakeModelShapes();

// kInvalidArgument for an unknown shape, kLimit when the disk has no room for it; nothing is left behind then.
Status MakeModel(const MakeModelOptions& options);

}  // namespace skein::formats
