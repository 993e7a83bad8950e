// SPDX-License-Identifier: Apache-2.0
//
// config.json of the llama family. A key that would change the numbers and is not known here is refused.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "formats/hf_model.h"

namespace skein::formats {
namespace {

namespace json = boost::json;

// As formats/gguf_model.cc has them: products of three fit 64 bits.
constexpr std::int64_t kLayersMax = 1 << 14;
constexpr std::int64_t kWidthMax = 1 << 20;
constexpr std::int64_t kHeadsMax = 1 << 14;
constexpr std::int64_t kContextMax = 1 << 30;
constexpr std::int64_t kVocabularyMax = 1 << 24;

std::string Shown(const json::value& value) {
  std::string text = json::serialize(value);
  return text.size() > 80 ? text.substr(0, 80) + "…" : text;
}

Status Expected(std::string_view key, std::string_view wanted, const json::value& found) {
  return InvalidFile(fmt::format("config.json: {} should be {}, found {}", key, wanted, Shown(found)),
                     std::string(key));
}

Status Unsupported(std::string_view key, const json::value& found) {
  return InvalidFile(fmt::format("config.json: {} is {}, which is not supported", key, Shown(found)), std::string(key));
}

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }

// Typed look-ups; null counts as absent, as the library that writes these files has it.
class Settings {
 public:
  explicit Settings(const json::object& object) : object_(object) {}

  const json::value* Find(std::string_view key) const {
    const json::value* value = object_.if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  Result<int> Integer(std::string_view key, std::int64_t minimum, std::int64_t maximum,
                      std::optional<int> fallback = std::nullopt) const {
    const json::value* value = Find(key);
    if (value == nullptr && fallback) return *fallback;
    const std::string wanted = fmt::format("an integer from {} to {}", minimum, maximum);
    if (value == nullptr) return Missing(key, wanted);
    if (!value->is_int64() || value->get_int64() < minimum || value->get_int64() > maximum) {
      return Expected(key, wanted, *value);
    }
    return static_cast<int>(value->get_int64());
  }

  // A finite positive number.
  Result<double> Positive(std::string_view key, std::optional<double> fallback = std::nullopt) const {
    const json::value* value = Find(key);
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr) return Missing(key, "a positive number");
    const std::optional<double> number = Number(*value);
    if (!number || !std::isfinite(*number) || *number <= 0) return Expected(key, "a positive number", *value);
    return *number;
  }

  Result<bool> Boolean(std::string_view key, bool fallback) const {
    const json::value* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_bool()) return Expected(key, "true or false", *value);
    return value->get_bool();
  }

  Result<std::string> Text(std::string_view key, std::string fallback) const {
    const json::value* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_string()) return Expected(key, "a string", *value);
    return std::string(View(value->get_string()));
  }

  static std::optional<double> Number(const json::value& value) {
    if (value.is_double()) return value.get_double();
    if (value.is_int64()) return static_cast<double>(value.get_int64());
    if (value.is_uint64()) return static_cast<double>(value.get_uint64());
    return std::nullopt;
  }

 private:
  static Status Missing(std::string_view key, std::string_view wanted) {
    return InvalidFile(fmt::format("config.json: {} is missing, expected {}", key, wanted), std::string(key));
  }

  const json::object& object_;
};

Status CheckArchitecture(const Settings& settings, ModelConfig* config) {
  const json::value* classes = settings.Find("architectures");
  std::string first;
  if (classes != nullptr) {
    if (!classes->is_array() || classes->get_array().empty() || !classes->get_array()[0].is_string()) {
      return Expected("architectures", "a list of one name", *classes);
    }
    first = View(classes->get_array()[0].get_string());
  }
  SKEIN_ASSIGN_OR_RETURN(config->architecture, settings.Text("model_type", first == "LlamaForCausalLM" ? "llama" : ""));
  if (config->architecture.empty()) {
    return InvalidFile("config.json: model_type is missing, so the architecture is not known; expected llama",
                       "model_type");
  }
  if (config->architecture != "llama") {
    return InvalidFile(fmt::format("config.json: the architecture {} is not supported; expected llama (model_type)",
                                   Shown(json::value(config->architecture))),
                       "model_type");
  }
  if (!first.empty() && first != "LlamaForCausalLM") return Unsupported("architectures", *classes);
  return OkStatus();
}

// Keys of relatives of this architecture, with the values under which they change nothing.
Status RefuseUnknownArithmetic(const Settings& settings) {
  for (const char* key : {"quantization_config", "attn_logit_softcapping", "final_logit_softcapping",
                          "query_pre_attn_scalar", "num_local_experts", "num_experts", "n_routed_experts",
                          "rope_local_base_freq", "clip_qkv", "no_rope_layers", "short_factor", "long_factor"}) {
    if (const json::value* value = settings.Find(key)) return Unsupported(key, *value);
  }
  for (const char* key : {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling",
                          "partial_rotary_factor", "logit_scale"}) {
    const json::value* value = settings.Find(key);
    if (value != nullptr && Settings::Number(*value) != 1.0) return Unsupported(key, *value);
  }
  for (const char* key : {"use_qk_norm", "qk_layernorm"}) {
    SKEIN_ASSIGN_OR_RETURN(const bool on, settings.Boolean(key, false));
    if (on) return Unsupported(key, true);
  }
  SKEIN_ASSIGN_OR_RETURN(const bool windowed, settings.Boolean("use_sliding_window", true));
  const json::value* window = settings.Find("sliding_window");
  if (windowed && window != nullptr) return Unsupported("sliding_window", *window);
  if (const json::value* types = settings.Find("layer_types")) {
    const json::array* list = types->if_array();
    const bool full = list != nullptr && std::all_of(list->begin(), list->end(), [](const json::value& type) {
                        return type.is_string() && type.get_string() == "full_attention";
                      });
    if (!full) return Unsupported("layer_types", *types);
  }
  SKEIN_ASSIGN_OR_RETURN(const std::string activation, settings.Text("hidden_act", "silu"));
  if (activation != "silu" && activation != "swish") return Unsupported("hidden_act", json::value(activation));
  return OkStatus();
}

// The values of a kind of scaling, and that there are no others.
Status CheckKeys(const json::object& scaling, std::string_view where, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : scaling) {
    const std::string_view name(key.data(), key.size());
    const bool always =
        name == "type" || name == "rope_type" || name == "rope_theta" || name == "partial_rotary_factor";
    if (always || value.is_null() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Unsupported(fmt::format("{}.{}", where, name), value);
  }
  return OkStatus();
}

Status ReadScaling(const json::object& object, std::string_view where, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  const Settings scaling(object);
  SKEIN_ASSIGN_OR_RETURN(rope.base, scaling.Positive("rope_theta", rope.base));
  SKEIN_ASSIGN_OR_RETURN(const double partial, scaling.Positive("partial_rotary_factor", 1));
  if (partial != 1) return Unsupported("partial_rotary_factor", partial);
  SKEIN_ASSIGN_OR_RETURN(const std::string old_kind, scaling.Text("type", "default"));
  SKEIN_ASSIGN_OR_RETURN(const std::string kind, scaling.Text("rope_type", old_kind));
  if (kind == "default") return CheckKeys(object, where, {});
  if (kind == "linear") {
    rope.scaling = RopeScaling::kLinear;
    SKEIN_RETURN_IF_ERROR(CheckKeys(object, where, {"factor"}));
    SKEIN_ASSIGN_OR_RETURN(rope.factor, scaling.Positive("factor"));
    return OkStatus();
  }
  if (kind == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    SKEIN_RETURN_IF_ERROR(CheckKeys(
        object, where, {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}));
    SKEIN_ASSIGN_OR_RETURN(rope.factor, scaling.Positive("factor"));
    SKEIN_ASSIGN_OR_RETURN(rope.low_frequency_factor, scaling.Positive("low_freq_factor"));
    SKEIN_ASSIGN_OR_RETURN(rope.high_frequency_factor, scaling.Positive("high_freq_factor"));
    SKEIN_ASSIGN_OR_RETURN(rope.original_context, scaling.Integer("original_max_position_embeddings", 1, kContextMax));
    if (rope.low_frequency_factor < rope.high_frequency_factor) return OkStatus();
    return Expected("high_freq_factor", "above low_freq_factor", rope.high_frequency_factor);
  }
  if (kind == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    SKEIN_RETURN_IF_ERROR(CheckKeys(
        object, where,
        {"factor", "attention_factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "truncate"}));
    SKEIN_ASSIGN_OR_RETURN(rope.original_context,
                           scaling.Integer("original_max_position_embeddings", 1, kContextMax, config->context));
    SKEIN_ASSIGN_OR_RETURN(rope.factor, scaling.Positive("factor"));
    SKEIN_ASSIGN_OR_RETURN(rope.beta_fast, scaling.Positive("beta_fast", rope.beta_fast));
    SKEIN_ASSIGN_OR_RETURN(rope.beta_slow, scaling.Positive("beta_slow", rope.beta_slow));
    if (scaling.Find("attention_factor") != nullptr) {
      SKEIN_ASSIGN_OR_RETURN(rope.attention_factor, scaling.Positive("attention_factor"));
    }
    SKEIN_ASSIGN_OR_RETURN(const bool truncate, scaling.Boolean("truncate", true));
    if (!truncate) return Unsupported("truncate", false);
    return OkStatus();
  }
  return InvalidFile(fmt::format("config.json: {} has rope_type {}, expected default, linear, llama3 or yarn", where,
                                 Shown(json::value(kind))),
                     std::string(where));
}

Status ReadRope(const Settings& settings, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.dimensions = config->head_dim;
  SKEIN_ASSIGN_OR_RETURN(rope.base, settings.Positive("rope_theta", rope.base));
  const json::value* older = settings.Find("rope_scaling");
  const json::value* newer = settings.Find("rope_parameters");
  if (older != nullptr && newer != nullptr && *older != *newer) {
    return InvalidFile("config.json: rope_scaling and rope_parameters say different things", "rope_parameters");
  }
  const json::value* scaling = newer != nullptr ? newer : older;
  const std::string_view where = newer != nullptr ? "rope_parameters" : "rope_scaling";
  if (scaling == nullptr) return OkStatus();
  if (!scaling->is_object()) return Expected(where, "an object", *scaling);
  const Status read = ReadScaling(scaling->get_object(), where, config);
  if (read.ok() || read.field() == where) return read;
  return Status(read.code(), fmt::format("{} ({})", read.message(), where), read.field());
}

Status AddEnds(const Settings& settings, std::string_view file, ModelConfig* config) {
  const json::value* value = settings.Find("eos_token_id");
  if (value == nullptr) return OkStatus();
  const auto add = [&](const json::value& item) -> Status {
    if (!item.is_int64() || item.get_int64() < 0 || item.get_int64() >= config->vocabulary) {
      return InvalidFile(fmt::format("{}: eos_token_id should be an id below {} or a list of such, found {}", file,
                                     config->vocabulary, Shown(item)),
                         "eos_token_id");
    }
    const TokenId id = static_cast<TokenId>(item.get_int64());
    if (std::find(config->eos.begin(), config->eos.end(), id) == config->eos.end()) config->eos.push_back(id);
    return OkStatus();
  };
  if (!value->is_array()) return add(*value);
  for (const json::value& item : value->get_array()) SKEIN_RETURN_IF_ERROR(add(item));
  return OkStatus();
}

}  // namespace

Result<ModelConfig> ReadHfConfig(const json::object& object, const json::object& generation) {
  const Settings settings(object);
  ModelConfig config;
  SKEIN_RETURN_IF_ERROR(CheckArchitecture(settings, &config));
  SKEIN_ASSIGN_OR_RETURN(config.layers, settings.Integer("num_hidden_layers", 1, kLayersMax));
  SKEIN_ASSIGN_OR_RETURN(config.hidden, settings.Integer("hidden_size", 1, kWidthMax));
  SKEIN_ASSIGN_OR_RETURN(config.heads, settings.Integer("num_attention_heads", 1, kHeadsMax));
  SKEIN_ASSIGN_OR_RETURN(config.kv_heads, settings.Integer("num_key_value_heads", 1, kHeadsMax, config.heads));
  if (config.heads % config.kv_heads != 0) {
    return InvalidFile(fmt::format("config.json: num_key_value_heads {} does not divide num_attention_heads {}",
                                   config.kv_heads, config.heads),
                       "num_key_value_heads");
  }
  if (settings.Find("head_dim") == nullptr && config.hidden % config.heads != 0) {
    return InvalidFile(fmt::format("config.json: hidden_size {} is no multiple of num_attention_heads {}, and there is "
                                   "no head_dim",
                                   config.hidden, config.heads),
                       "hidden_size");
  }
  SKEIN_ASSIGN_OR_RETURN(config.head_dim, settings.Integer("head_dim", 1, kHeadsMax, config.hidden / config.heads));
  if (config.head_dim % 2 != 0) {
    return InvalidFile(fmt::format("config.json: head_dim is {}, expected an even number", config.head_dim),
                       "head_dim");
  }
  SKEIN_ASSIGN_OR_RETURN(config.feed_forward, settings.Integer("intermediate_size", 1, kWidthMax));
  SKEIN_ASSIGN_OR_RETURN(config.vocabulary, settings.Integer("vocab_size", 1, kVocabularyMax));
  SKEIN_ASSIGN_OR_RETURN(config.context, settings.Integer("max_position_embeddings", 1, kContextMax, 2048));
  SKEIN_ASSIGN_OR_RETURN(const double epsilon, settings.Positive("rms_norm_eps", 1e-6));
  if (epsilon >= 1) return Expected("rms_norm_eps", "a small positive number", epsilon);
  config.norm_epsilon = static_cast<float>(epsilon);
  SKEIN_ASSIGN_OR_RETURN(config.tied_embedding, settings.Boolean("tie_word_embeddings", false));
  SKEIN_ASSIGN_OR_RETURN(config.attention_bias, settings.Boolean("attention_bias", false));
  SKEIN_ASSIGN_OR_RETURN(config.mlp_bias, settings.Boolean("mlp_bias", false));
  SKEIN_RETURN_IF_ERROR(ReadRope(settings, &config));
  SKEIN_RETURN_IF_ERROR(RefuseUnknownArithmetic(settings));
  SKEIN_ASSIGN_OR_RETURN(config.bos, settings.Integer("bos_token_id", -1, config.vocabulary - 1, -1));
  SKEIN_RETURN_IF_ERROR(AddEnds(Settings(generation), "generation_config.json", &config));
  SKEIN_RETURN_IF_ERROR(AddEnds(settings, "config.json", &config));
  return config;
}

}  // namespace skein::formats
