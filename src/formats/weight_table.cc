// SPDX-License-Identifier: Apache-2.0
#include "formats/weight_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace skein::formats {
namespace {

// How long a side of a tensor is, in words of the configuration.
enum class Side { kNone, kHidden, kQuery, kKeyValue, kFeedForward, kVocabulary };
enum class When { kAlways, kAttentionBias, kMlpBias, kUntied };

struct Weight {
  std::string_view ours;
  std::string_view gguf;
  std::string_view hugging_face;
  Side rows;  // of a vector: its elements
  Side columns;
  When when;
};

constexpr Weight kLayer[] = {
    {"attention_norm", "attn_norm.weight", "input_layernorm.weight", Side::kHidden, Side::kNone, When::kAlways},
    {"q", "attn_q.weight", "self_attn.q_proj.weight", Side::kQuery, Side::kHidden, When::kAlways},
    {"k", "attn_k.weight", "self_attn.k_proj.weight", Side::kKeyValue, Side::kHidden, When::kAlways},
    {"v", "attn_v.weight", "self_attn.v_proj.weight", Side::kKeyValue, Side::kHidden, When::kAlways},
    {"o", "attn_output.weight", "self_attn.o_proj.weight", Side::kHidden, Side::kQuery, When::kAlways},
    {"q_bias", "attn_q.bias", "self_attn.q_proj.bias", Side::kQuery, Side::kNone, When::kAttentionBias},
    {"k_bias", "attn_k.bias", "self_attn.k_proj.bias", Side::kKeyValue, Side::kNone, When::kAttentionBias},
    {"v_bias", "attn_v.bias", "self_attn.v_proj.bias", Side::kKeyValue, Side::kNone, When::kAttentionBias},
    {"o_bias", "attn_output.bias", "self_attn.o_proj.bias", Side::kHidden, Side::kNone, When::kAttentionBias},
    {"feed_forward_norm", "ffn_norm.weight", "post_attention_layernorm.weight", Side::kHidden, Side::kNone,
     When::kAlways},
    {"gate", "ffn_gate.weight", "mlp.gate_proj.weight", Side::kFeedForward, Side::kHidden, When::kAlways},
    {"up", "ffn_up.weight", "mlp.up_proj.weight", Side::kFeedForward, Side::kHidden, When::kAlways},
    {"down", "ffn_down.weight", "mlp.down_proj.weight", Side::kHidden, Side::kFeedForward, When::kAlways},
    {"gate_bias", "ffn_gate.bias", "mlp.gate_proj.bias", Side::kFeedForward, Side::kNone, When::kMlpBias},
    {"up_bias", "ffn_up.bias", "mlp.up_proj.bias", Side::kFeedForward, Side::kNone, When::kMlpBias},
    {"down_bias", "ffn_down.bias", "mlp.down_proj.bias", Side::kHidden, Side::kNone, When::kMlpBias},
};
constexpr Weight kEmbedding = {"embedding",       "token_embd.weight", "model.embed_tokens.weight",
                               Side::kVocabulary, Side::kHidden,       When::kAlways};
constexpr Weight kOutputNorm = {"output_norm", "output_norm.weight", "model.norm.weight",
                                Side::kHidden, Side::kNone,          When::kAlways};
constexpr Weight kHead = {"head", "output.weight", "lm_head.weight", Side::kVocabulary, Side::kHidden, When::kUntied};

// Beginnings of names that belong to the model's numbers, and what among them is safe to leave out: tables that every
// implementation computes by itself.
constexpr std::array<std::string_view, 3> kGgufOurs = {"blk.", "output", "token_embd"};
constexpr std::array<std::string_view, 2> kHuggingFaceOurs = {"model.", "lm_head."};
constexpr std::array<std::string_view, 3> kComputed = {"rotary_emb.inv_freq", "attn_rot_embd.weight",
                                                       "rope_freqs.weight"};

std::string_view NameIn(WeightNaming naming, const Weight& weight) {
  switch (naming) {
    case WeightNaming::kGguf:
      return weight.gguf;
    case WeightNaming::kHuggingFace:
      return weight.hugging_face;
    case WeightNaming::kOurs:
      return weight.ours;
  }
  return weight.ours;
}

std::string LayerPrefix(WeightNaming naming, int layer) {
  switch (naming) {
    case WeightNaming::kGguf:
      return fmt::format("blk.{}.", layer);
    case WeightNaming::kHuggingFace:
      return fmt::format("model.layers.{}.", layer);
    case WeightNaming::kOurs:
      return fmt::format("layers.{}.", layer);
  }
  return {};
}

bool Wanted(When when, const ModelConfig& config) {
  switch (when) {
    case When::kAlways:
      return true;
    case When::kAttentionBias:
      return config.attention_bias;
    case When::kMlpBias:
      return config.mlp_bias;
    case When::kUntied:
      return !config.tied_embedding;
  }
  return true;
}

std::uint64_t LengthOf(Side side, const ModelConfig& config) {
  const auto product = [](int a, int b) { return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b); };
  switch (side) {
    case Side::kNone:
      return 0;
    case Side::kHidden:
      return static_cast<std::uint64_t>(config.hidden);
    case Side::kQuery:
      return product(config.heads, config.head_dim);
    case Side::kKeyValue:
      return product(config.kv_heads, config.head_dim);
    case Side::kFeedForward:
      return static_cast<std::uint64_t>(config.feed_forward);
    case Side::kVocabulary:
      return static_cast<std::uint64_t>(config.vocabulary);
  }
  return 0;
}

class Picker {
 public:
  Picker(const ModelConfig& config, WeightNaming naming, const std::vector<FoundTensor>& found)
      : config_(config), naming_(naming), found_(found), taken_(found.size()) {
    for (std::size_t i = 0; i < found.size(); ++i) places_.emplace(found[i].info.file_name, i);
  }

  Result<std::vector<TensorInfo>> Run() {
    SKEIN_RETURN_IF_ERROR(Pick(kEmbedding, "", ""));
    // Layers one after another: a count that the file only claims ends at the first that is not there.
    for (int layer = 0; layer < config_.layers; ++layer) {
      const std::string ours = LayerPrefix(WeightNaming::kOurs, layer), theirs = LayerPrefix(naming_, layer);
      for (const Weight& weight : kLayer) SKEIN_RETURN_IF_ERROR(Pick(weight, ours, theirs));
    }
    SKEIN_RETURN_IF_ERROR(Pick(kOutputNorm, "", ""));
    SKEIN_RETURN_IF_ERROR(Pick(kHead, "", ""));
    SKEIN_RETURN_IF_ERROR(CheckRest());
    return std::move(picked_);
  }

 private:
  Status Pick(const Weight& weight, const std::string& our_prefix, const std::string& their_prefix) {
    if (!Wanted(weight.when, config_)) return OkStatus();
    const std::string name = their_prefix + std::string(NameIn(naming_, weight));
    const auto place = places_.find(name);
    if (place == places_.end()) {
      return InvalidFile(fmt::format("tensor {} is missing; the model says it has {} layers", name, config_.layers),
                         name);
    }
    const FoundTensor& found = found_[place->second];
    std::vector<std::uint64_t> shape = {LengthOf(weight.rows, config_)};
    if (weight.columns != Side::kNone) shape.push_back(LengthOf(weight.columns, config_));
    if (found.info.shape != shape) {
      return InvalidFile(
          fmt::format("tensor {} has shape {}, expected {} from the model's settings{}", name,
                      ShownShape(found.info.shape), ShownShape(shape),
                      weight.rows == Side::kVocabulary ? " (tokens of the vocabulary × hidden size)" : ""),
          name);
    }
    if (!found.odd_format.empty()) {
      return InvalidFile(fmt::format("tensor {} has dtype {}, which is not supported", name, found.odd_format), name);
    }
    if (weight.columns == Side::kNone && InfoOf(found.info.dtype).block_elements != 1) {
      return InvalidFile(fmt::format("tensor {} has format {}, expected F32, F16 or BF16 for a vector", name,
                                     InfoOf(found.info.dtype).name),
                         name);
    }
    taken_[place->second] = true;
    picked_.push_back(found.info);
    picked_.back().name = our_prefix + std::string(weight.ours);
    return OkStatus();
  }

  // A tensor of the layers that was not taken would change the numbers if it were used: a layer beyond the count, a
  // norm of another architecture, scales of quantised weights.
  Status CheckRest() const {
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const std::string& name = found_[i].info.file_name;
      if (taken_[i] || !IsOurs(name)) continue;
      const bool computed = std::any_of(kComputed.begin(), kComputed.end(),
                                        [&](std::string_view ending) { return name.ends_with(ending); });
      const bool tied_head = config_.tied_embedding && name == kHead.hugging_face;
      if (computed || tied_head) continue;
      return InvalidFile(fmt::format("tensor {} has no place in a {} model of {} layers with these settings", name,
                                     config_.architecture, config_.layers),
                         name);
    }
    return OkStatus();
  }

  bool IsOurs(const std::string& name) const {
    const auto begins = [&](std::string_view beginning) { return name.starts_with(beginning); };
    if (naming_ == WeightNaming::kOurs) return true;
    return naming_ == WeightNaming::kGguf ? std::any_of(kGgufOurs.begin(), kGgufOurs.end(), begins)
                                          : std::any_of(kHuggingFaceOurs.begin(), kHuggingFaceOurs.end(), begins);
  }

  const ModelConfig& config_;
  WeightNaming naming_;
  const std::vector<FoundTensor>& found_;
  std::vector<bool> taken_;
  std::unordered_map<std::string_view, std::size_t> places_;
  std::vector<TensorInfo> picked_;
};

bool HasAny(When when, WeightNaming naming, const std::vector<FoundTensor>& found) {
  for (const FoundTensor& tensor : found) {
    for (const Weight& weight : kLayer) {
      if (weight.when != when) continue;
      if (std::string_view(tensor.info.file_name).ends_with(NameIn(naming, weight))) return true;
    }
  }
  return false;
}

std::uint64_t ElementsOf(const TensorInfo& tensor) {
  std::uint64_t elements = 1;  // no wrap: the readers checked the product
  for (const std::uint64_t size : tensor.shape) elements *= size;
  return elements;
}

}  // namespace

Result<std::vector<TensorInfo>> PickTensors(const ModelConfig& config, WeightNaming naming,
                                            const std::vector<FoundTensor>& found) {
  return Picker(config, naming, found).Run();
}

bool HasAttentionBias(WeightNaming naming, const std::vector<FoundTensor>& found) {
  return HasAny(When::kAttentionBias, naming, found);
}

bool HasMlpBias(WeightNaming naming, const std::vector<FoundTensor>& found) {
  return HasAny(When::kMlpBias, naming, found);
}

std::uint64_t CountParameters(const std::vector<TensorInfo>& tensors) {
  std::uint64_t parameters = 0;
  for (const TensorInfo& tensor : tensors) parameters += ElementsOf(tensor);
  return parameters;
}

std::string MostFrequentFormat(const std::vector<TensorInfo>& tensors) {
  std::array<std::uint64_t, 6> elements = {};
  for (const TensorInfo& tensor : tensors) elements[static_cast<std::size_t>(tensor.dtype)] += ElementsOf(tensor);
  const auto most = std::max_element(elements.begin(), elements.end()) - elements.begin();
  return std::string(InfoOf(static_cast<DType>(most)).name);
}

std::string ShownShape(const std::vector<std::uint64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace skein::formats
