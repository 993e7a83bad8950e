// SPDX-License-Identifier: Apache-2.0
//
// The tensors that a llama model needs, by the names of either file format, with the shapes that follow from its
// configuration. Both readers pick their tensors through this table, so what is checked is the same for both.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "formats/model_config.h"
#include "formats/model_file.h"

namespace skein::formats {

// kOurs: file_name is a name of our own.
enum class WeightNaming { kGguf, kHuggingFace, kOurs };

// A tensor as a file describes it: `info.name` is still empty. A format that we cannot compute with is kept as text,
// for a tensor that nobody uses may have it.
struct FoundTensor {
  TensorInfo info;
  std::string odd_format;
};

// Picks the model's tensors out of `found`, in the order embedding, layers, output_norm, head. Errors (kInvalidFile,
// naming the tensor): one is missing, or has another shape or an unfit format; a tensor of the layers has no place in
// the model, so that leaving it out would change the numbers.
Result<std::vector<TensorInfo>> PickTensors(const ModelConfig& config, WeightNaming naming,
                                            const std::vector<FoundTensor>& found);

// True when `found` has any of the layer's biases: of q, k, v and o, or of gate, up and down.
bool HasAttentionBias(WeightNaming naming, const std::vector<FoundTensor>& found);
bool HasMlpBias(WeightNaming naming, const std::vector<FoundTensor>& found);

// Elements of all `tensors`, and the name of the format that most of them have.
std::uint64_t CountParameters(const std::vector<TensorInfo>& tensors);
std::string MostFrequentFormat(const std::vector<TensorInfo>& tensors);

// "[2, 3]"
std::string ShownShape(const std::vector<std::uint64_t>& shape);

}  // namespace skein::formats
