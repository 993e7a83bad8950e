// SPDX-License-Identifier: Apache-2.0
//
// The keys of architecture `llama`, as the GGUF specification names them, into a ModelConfig. A setting that would
// change the numbers and is not known here is refused.
#include "formats/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "formats/metadata_json.h"
#include "formats/opened_model.h"
#include "formats/tokenizer_gguf.h"
#include "formats/weight_table.h"

namespace skein::formats {
namespace {

// Far above any model, and low enough that products of three fit 64 bits.
constexpr std::int64_t kLayersMax = 1 << 14;
constexpr std::int64_t kWidthMax = 1 << 20;
constexpr std::int64_t kHeadsMax = 1 << 14;
constexpr std::int64_t kHeadDimMax = 1 << 14;
constexpr std::int64_t kContextMax = 1 << 30;
constexpr std::int64_t kVocabularyMax = 1 << 24;

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";

std::string Key(std::string_view name) { return fmt::format("llama.{}", name); }

Status Refused(std::string_view key, std::string_view why) {
  return InvalidFile(fmt::format("the metadata key {} {}", key, why), std::string(key));
}

Result<int> Count(const Gguf& gguf, const std::string& key, std::int64_t minimum, std::int64_t maximum) {
  SKEIN_ASSIGN_OR_RETURN(const std::int64_t value, gguf.Integer(key, minimum, maximum));
  return static_cast<int>(value);
}

Result<int> Count(const Gguf& gguf, const std::string& key, std::int64_t minimum, std::int64_t maximum,
                  std::int64_t fallback) {
  SKEIN_ASSIGN_OR_RETURN(const std::int64_t value, gguf.Integer(key, minimum, maximum, fallback));
  return static_cast<int>(value);
}

// What other models with this architecture's tensors may ask for.
Status RefuseUnknownArithmetic(const Gguf& gguf) {
  for (const char* name : {"expert_count", "expert_used_count", "attention.sliding_window"}) {
    SKEIN_ASSIGN_OR_RETURN(const std::int64_t value,
                           gguf.Integer(Key(name), 0, std::numeric_limits<std::int64_t>::max(), 0));
    if (value != 0) return Refused(Key(name), fmt::format("is {}, which is not supported", value));
  }
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv",
                           "attention.max_alibi_bias", "rope.scaling.yarn_log_multiplier"}) {
    SKEIN_ASSIGN_OR_RETURN(const double value, gguf.Real(Key(name), 0));
    if (value != 0) return Refused(Key(name), fmt::format("is {}, which is not supported", value));
  }
  for (const char* name : {"logit_scale", "residual_scale", "embedding_scale"}) {
    SKEIN_ASSIGN_OR_RETURN(const double value, gguf.Real(Key(name), 1));
    if (value != 1 && value != 0) return Refused(Key(name), fmt::format("is {}, which is not supported", value));
  }
  if (gguf.Find(Key("attention.scale")) != nullptr) return Refused(Key("attention.scale"), "is not supported");
  SKEIN_ASSIGN_OR_RETURN(const bool causal, gguf.Boolean(Key("attention.causal"), true));
  if (!causal) return Refused(Key("attention.causal"), "is false, which is not supported");
  return OkStatus();
}

Status ReadHeads(const Gguf& gguf, ModelConfig* config) {
  SKEIN_ASSIGN_OR_RETURN(config->heads, Count(gguf, Key("attention.head_count"), 1, kHeadsMax));
  SKEIN_ASSIGN_OR_RETURN(config->kv_heads, Count(gguf, Key("attention.head_count_kv"), 1, kHeadsMax, config->heads));
  if (config->heads % config->kv_heads != 0) {
    return Refused(Key("attention.head_count_kv"),
                   fmt::format("is {}, which does not divide the {} heads of {}", config->kv_heads, config->heads,
                               Key("attention.head_count")));
  }
  if (gguf.Find(Key("attention.key_length")) != nullptr) {
    SKEIN_ASSIGN_OR_RETURN(config->head_dim, Count(gguf, Key("attention.key_length"), 1, kHeadDimMax));
  } else if (config->hidden % config->heads == 0) {
    config->head_dim = config->hidden / config->heads;
  } else {
    return Refused(Key("embedding_length"),
                   fmt::format("is {}, no multiple of {} {}, and there is no {}", config->hidden,
                               Key("attention.head_count"), config->heads, Key("attention.key_length")));
  }
  SKEIN_ASSIGN_OR_RETURN(const int value_length,
                         Count(gguf, Key("attention.value_length"), 1, kHeadDimMax, config->head_dim));
  if (value_length != config->head_dim) {
    return Refused(Key("attention.value_length"),
                   fmt::format("is {}, expected the width of the keys, {}", value_length, config->head_dim));
  }
  return OkStatus();
}

Status ReadYarn(const Gguf& gguf, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  SKEIN_ASSIGN_OR_RETURN(rope.original_context,
                         Count(gguf, Key("rope.scaling.original_context_length"), 1, kContextMax, config->context));
  SKEIN_ASSIGN_OR_RETURN(rope.beta_fast, gguf.Real(Key("rope.scaling.yarn_beta_fast"), rope.beta_fast));
  SKEIN_ASSIGN_OR_RETURN(rope.beta_slow, gguf.Real(Key("rope.scaling.yarn_beta_slow"), rope.beta_slow));
  if (rope.beta_fast <= 0 || rope.beta_slow <= 0)
    return Refused(Key("rope.scaling.yarn_beta_fast"), "and yarn_beta_slow should be positive");
  SKEIN_ASSIGN_OR_RETURN(const double mixed, gguf.Real(Key("rope.scaling.yarn_ext_factor"), 1));
  if (mixed != 1 && mixed >= 0) return Refused(Key("rope.scaling.yarn_ext_factor"), "should be 1");
  // The file's factor multiplies what yarn's own formula gives.
  SKEIN_ASSIGN_OR_RETURN(double attention, gguf.Real(Key("rope.scaling.attn_factor"), 1));
  SKEIN_ASSIGN_OR_RETURN(attention, gguf.Real(Key("rope.scaling.yarn_attn_factor"), attention));
  if (attention <= 0) return Refused(Key("rope.scaling.attn_factor"), "should be positive");
  if (attention != 1) rope.attention_factor = attention * (1 + 0.1 * std::log(std::max(1.0, rope.factor)));
  return OkStatus();
}

Status ReadRope(const Gguf& gguf, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  SKEIN_ASSIGN_OR_RETURN(rope.dimensions, Count(gguf, Key("rope.dimension_count"), 1, kHeadDimMax, config->head_dim));
  if (rope.dimensions != config->head_dim || rope.dimensions % 2 != 0) {
    return Refused(Key("rope.dimension_count"),
                   fmt::format("is {}, expected the even width of a head, {} (from {} {} and {} {}, or {})",
                               rope.dimensions, config->head_dim, Key("embedding_length"), config->hidden,
                               Key("attention.head_count"), config->heads, Key("attention.key_length")));
  }
  SKEIN_ASSIGN_OR_RETURN(rope.base, gguf.Real(Key("rope.freq_base"), rope.base));
  if (rope.base <= 0)
    return Refused(Key("rope.freq_base"), fmt::format("is {}, expected a positive number", rope.base));
  SKEIN_ASSIGN_OR_RETURN(const double old_scale, gguf.Real(Key("rope.scale_linear"), 1));
  SKEIN_ASSIGN_OR_RETURN(const std::string kind,
                         gguf.Text(Key("rope.scaling.type"), old_scale != 1 ? "linear" : "none"));
  SKEIN_ASSIGN_OR_RETURN(rope.factor, gguf.Real(Key("rope.scaling.factor"), old_scale));
  if (rope.factor == 0) rope.factor = 1;  // some files say 0 for none
  if (rope.factor <= 0) {
    return Refused(Key("rope.scaling.factor"), fmt::format("is {}, expected a positive number", rope.factor));
  }
  if (kind == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (kind == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    return ReadYarn(gguf, config);
  } else if (kind == "none") {
    rope.factor = 1;
  } else {
    return Refused(Key("rope.scaling.type"), fmt::format("is {}, expected none, linear or yarn", JsonText(kind)));
  }
  return OkStatus();
}

// The vocabulary's arrays agree with each other; what they mean is the tokenizer's.
Status ReadVocabulary(const Gguf& gguf, ModelConfig* config) {
  SKEIN_ASSIGN_OR_RETURN(const std::vector<std::string>* tokens, gguf.Strings(kTokens));
  if (tokens == nullptr || tokens->empty()) return Refused(kTokens, "is missing or has no tokens");
  const std::int64_t count = static_cast<std::int64_t>(tokens->size());
  if (count > kVocabularyMax)
    return Refused(kTokens, fmt::format("has {} tokens, at most {} are read", count, kVocabularyMax));
  config->vocabulary = static_cast<int>(count);
  SKEIN_ASSIGN_OR_RETURN(const std::int64_t stated, gguf.Integer(Key("vocab_size"), 1, kVocabularyMax, count));
  if (stated != count) {
    return Refused(Key("vocab_size"), fmt::format("is {}, but {} has {} tokens", stated, kTokens, count));
  }
  SKEIN_ASSIGN_OR_RETURN(const std::vector<float>* scores, gguf.Reals("tokenizer.ggml.scores"));
  if (scores != nullptr && scores->size() != tokens->size()) {
    return Refused("tokenizer.ggml.scores",
                   fmt::format("has {} items, expected one for each of {} tokens", scores->size(), count));
  }
  if (scores != nullptr && !std::all_of(scores->begin(), scores->end(), [](float x) { return std::isfinite(x); })) {
    return Refused("tokenizer.ggml.scores", "should hold finite numbers only");
  }
  SKEIN_ASSIGN_OR_RETURN(const std::vector<std::int64_t>* types, gguf.Integers("tokenizer.ggml.token_type"));
  if (types != nullptr && types->size() != tokens->size()) {
    return Refused("tokenizer.ggml.token_type",
                   fmt::format("has {} items, expected one for each of {} tokens", types->size(), count));
  }
  SKEIN_RETURN_IF_ERROR(gguf.Strings("tokenizer.ggml.merges").status());
  return OkStatus();
}

Status ReadEnds(const Gguf& gguf, ModelConfig* config) {
  constexpr std::int64_t kNone = std::numeric_limits<std::uint32_t>::max();  // the specification's "no such token"
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "padding", "separator"}) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    if (gguf.Find(key) == nullptr) continue;
    SKEIN_ASSIGN_OR_RETURN(const std::int64_t id, gguf.Integer(key, -1, kNone));
    if (id == kNone || id == -1) continue;
    if (id >= config->vocabulary) {
      return Refused(key, fmt::format("is {}, expected an id below the {} tokens", id, config->vocabulary));
    }
    const TokenId token = static_cast<TokenId>(id);
    const std::string_view which = name;
    if (which == "bos") config->bos = token;
    const bool ends = which == "eos" || which == "eot" || which == "eom";
    if (ends && std::find(config->eos.begin(), config->eos.end(), token) == config->eos.end()) {
      config->eos.push_back(token);
    }
  }
  return OkStatus();
}

Status ReadConfig(const Gguf& gguf, ModelConfig* config) {
  SKEIN_ASSIGN_OR_RETURN(config->architecture, gguf.Text("general.architecture"));
  if (config->architecture != "llama") {
    return InvalidFile(fmt::format("the architecture {} is not supported; expected llama (general.architecture)",
                                   JsonText(config->architecture)),
                       "general.architecture");
  }
  SKEIN_ASSIGN_OR_RETURN(config->layers, Count(gguf, Key("block_count"), 1, kLayersMax));
  SKEIN_ASSIGN_OR_RETURN(config->hidden, Count(gguf, Key("embedding_length"), 1, kWidthMax));
  SKEIN_ASSIGN_OR_RETURN(config->feed_forward, Count(gguf, Key("feed_forward_length"), 1, kWidthMax));
  SKEIN_ASSIGN_OR_RETURN(config->context, Count(gguf, Key("context_length"), 1, kContextMax));
  SKEIN_RETURN_IF_ERROR(ReadHeads(gguf, config));
  const std::string epsilon_key = Key("attention.layer_norm_rms_epsilon");
  if (gguf.Find(epsilon_key) == nullptr) return Refused(epsilon_key, "is missing");
  SKEIN_ASSIGN_OR_RETURN(const double epsilon, gguf.Real(epsilon_key, 0));
  if (!(epsilon > 0 && epsilon < 1))
    return Refused(epsilon_key, fmt::format("is {}, expected a small positive number", epsilon));
  config->norm_epsilon = static_cast<float>(epsilon);
  SKEIN_RETURN_IF_ERROR(ReadRope(gguf, config));
  SKEIN_RETURN_IF_ERROR(RefuseUnknownArithmetic(gguf));
  SKEIN_RETURN_IF_ERROR(ReadVocabulary(gguf, config));
  SKEIN_RETURN_IF_ERROR(ReadEnds(gguf, config));
  config->interleaved_rope_rows = true;
  return OkStatus();
}

std::vector<FoundTensor> Describe(const std::vector<GgufPart>& parts) {
  std::vector<FoundTensor> found;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (const GgufTensor& tensor : parts[part].gguf.tensors()) {
      FoundTensor& one = found.emplace_back();
      one.info.file_name = tensor.name;
      one.info.shape.assign(tensor.dimensions.rbegin(), tensor.dimensions.rend());
      one.info.dtype = tensor.dtype;
      one.info.bytes = tensor.bytes;
      one.info.offset = tensor.offset;
      one.info.file = static_cast<int>(part);
    }
  }
  return found;
}

Status CheckNames(const std::vector<FoundTensor>& found) {
  std::vector<std::string_view> names;
  for (const FoundTensor& tensor : found) names.push_back(tensor.info.file_name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return InvalidFile(fmt::format("duplicate tensor {} in two parts", *twice), std::string(*twice));
  }
  return OkStatus();
}

// GGUF says llama3's scaling of frequencies as a tensor.
Status ReadDivisors(const std::vector<FoundTensor>& found, OpenedModel* model) {
  constexpr std::string_view kName = "rope_freqs.weight";
  RopeConfig& rope = model->config_.rope;
  for (const FoundTensor& tensor : found) {
    const TensorInfo& info = tensor.info;
    if (info.file_name != kName) continue;
    const std::vector<std::uint64_t> shape = {static_cast<std::uint64_t>(rope.dimensions / 2)};
    if (info.dtype != DType::kF32 || info.shape != shape) {
      return InvalidFile(fmt::format("tensor {} has format {} and shape {}, expected F32 and {}", kName,
                                     InfoOf(info.dtype).name, ShownShape(info.shape), ShownShape(shape)),
                         std::string(kName));
    }
    rope.frequency_divisors.resize(shape[0]);
    SKEIN_RETURN_IF_ERROR(
        ReadAt(model->descriptor(info.file), info.offset, std::as_writable_bytes(std::span(rope.frequency_divisors))));
    for (const float divisor : rope.frequency_divisors) {
      if (!(std::isfinite(divisor) && divisor > 0)) {
        return InvalidFile(fmt::format("tensor {} holds {}, expected positive numbers", kName, divisor),
                           std::string(kName));
      }
    }
  }
  return OkStatus();
}

Status Fill(std::vector<GgufPart>* parts, OpenedModel* model) {
  const Gguf& gguf = (*parts)[0].gguf;
  ModelConfig& config = model->config_;
  SKEIN_RETURN_IF_ERROR(ReadConfig(gguf, &config));
  SKEIN_ASSIGN_OR_RETURN(config.name, gguf.Text("general.name", std::filesystem::path(model->path_).stem().string()));
  const std::vector<FoundTensor> found = Describe(*parts);
  SKEIN_RETURN_IF_ERROR(CheckNames(found));
  config.tied_embedding = std::none_of(
      found.begin(), found.end(), [](const FoundTensor& tensor) { return tensor.info.file_name == "output.weight"; });
  config.attention_bias = HasAttentionBias(WeightNaming::kGguf, found);
  config.mlp_bias = HasMlpBias(WeightNaming::kGguf, found);
  SKEIN_ASSIGN_OR_RETURN(model->tensors_, PickTensors(config, WeightNaming::kGguf, found));
  config.parameters = CountParameters(model->tensors_);
  config.weight_format = MostFrequentFormat(model->tensors_);
  for (GgufPart& part : *parts) model->Own(std::move(part.file));
  SKEIN_RETURN_IF_ERROR(ReadDivisors(found, model));
  SKEIN_ASSIGN_OR_RETURN(model->tokenizer_, ReadTokenizerGguf(gguf));
  SKEIN_ASSIGN_OR_RETURN(model->chat_template_, ChatTemplateOf(gguf));
  for (const auto& [key, value] : gguf.metadata()) model->metadata_.push_back({key, JsonOf(value)});
  return OkStatus();
}

}  // namespace

Result<std::string> ChatTemplateOf(const Gguf& gguf) { return gguf.Text("tokenizer.chat_template", ""); }

Result<std::unique_ptr<ModelFile>> OpenGgufModel(const std::string& path) {
  SKEIN_ASSIGN_OR_RETURN(std::vector<GgufPart> parts, OpenGgufParts(path));
  auto model = std::make_unique<OpenedModel>();
  model->path_ = path;
  if (Status filled = Fill(&parts, model.get()); !filled.ok()) return filled.WithContext(ShownPath(path));
  return std::unique_ptr<ModelFile>(std::move(model));
}

}  // namespace skein::formats
