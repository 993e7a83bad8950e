// SPDX-License-Identifier: Apache-2.0
#include "server/openai/generation_fields.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "server/openai/field_tables.h"
#include "server/openai/prompts.h"

namespace skein::server {
namespace {

namespace json = boost::json;

// Below this a division by the temperature would leave the range of floats; the likeliest token has it all anyway.
constexpr double kTemperatureMin = 1e-5;
constexpr double kBiasMax = 100;
constexpr std::string_view kTimeoutHeader = "x-request-timeout";
constexpr double kTimeoutMaxSeconds = 86400;

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }

std::uint64_t RandomSeed() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) == sizeof seed) return seed;
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::optional<ApiError> ReadBias(const Fields& fields, const ModelCard& card, GenerationRequest& out) {
  const json::value* value = fields.Find("logit_bias");
  if (value == nullptr) return std::nullopt;
  for (const json::key_value_pair& member : value->get_object()) {
    const std::string_view key(member.key().data(), member.key().size());
    TokenId token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    const bool decimal = error == std::errc() && end == key.data() + key.size() && (key == "0" || key.front() != '0');
    if (!decimal || token < 0 || token >= card.vocabulary) {
      return BadField("logit_bias", fmt::format("logit_bias has token ids from 0 to {} as keys, found {}",
                                                card.vocabulary - 1, Shown(json::string(member.key()))));
    }
    const json::value& bias = member.value();
    const double number = bias.is_number() ? bias.to_number<double>() : kBiasMax + 1;
    if (std::fabs(number) > kBiasMax) {
      return BadField("logit_bias", fmt::format("logit_bias has numbers from -100 to 100, found {} for token {}",
                                                Shown(bias), token));
    }
    out.sampling.bias.emplace_back(token, static_cast<float>(number));
  }
  // In order of ids, so that the same request is the same however its members were ordered.
  std::sort(out.sampling.bias.begin(), out.sampling.bias.end());
  return std::nullopt;
}

void ReadSampling(const Fields& fields, GenerationRequest& out) {
  scheduler::SamplingParameters& sampling = out.sampling;
  const double temperature = fields.Number("temperature");
  sampling.temperature = temperature < kTemperatureMin ? 0.0f : static_cast<float>(temperature);
  sampling.top_p = static_cast<float>(fields.Number("top_p"));
  sampling.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(fields.Integer("top_k"), 0));
  sampling.min_p = static_cast<float>(fields.Number("min_p"));
  sampling.presence_penalty = static_cast<float>(fields.Number("presence_penalty"));
  sampling.frequency_penalty = static_cast<float>(fields.Number("frequency_penalty"));
  sampling.repetition_penalty = static_cast<float>(fields.Number("repetition_penalty"));
  const std::optional<std::uint64_t> seed = fields.TryBits("seed");
  sampling.seed = seed ? *seed : RandomSeed();
}

std::optional<ApiError> AddStop(const json::value& value, std::string_view field, GenerationRequest& out) {
  const json::string* text = value.if_string();
  if (text == nullptr) return BadField(field, fmt::format("{} is text, found {}", field, Shown(value)));
  if (text->empty()) return BadField(field, fmt::format("{} is empty and would end every answer; leave it out", field));
  if (text->size() > kStopBytesMax) {
    return BadField(field, fmt::format("{} is text of at most {} bytes, found {}", field, kStopBytesMax, text->size()));
  }
  out.stop.emplace_back(View(*text));
  return std::nullopt;
}

std::optional<ApiError> ReadStops(const Fields& fields, const ModelCard& card, GenerationRequest& out) {
  if (const json::value* stop = fields.Find("stop")) {
    if (stop->is_string()) {
      if (std::optional<ApiError> error = AddStop(*stop, "stop", out)) return error;
    } else {
      const json::array& list = stop->get_array();
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (std::optional<ApiError> error = AddStop(list[i], fmt::format("stop[{}]", i), out)) return error;
      }
    }
  }
  const json::value* ids = fields.Find("stop_token_ids");
  if (ids != nullptr && !ids->get_array().empty()) {
    ApiResult<std::vector<TokenId>> tokens = ReadTokenIds(ids->get_array(), "stop_token_ids", card);
    if (!tokens.ok()) return tokens.error();
    out.stop_token_ids = std::move(tokens).value();
  }
  return std::nullopt;
}

std::optional<ApiError> ReadStreamOptions(const Fields& fields, GenerationRequest& out) {
  const json::value* options = fields.Find("stream_options");
  if (options == nullptr) return std::nullopt;
  if (!out.stream) return BadField("stream_options", "stream_options goes with \"stream\": true; leave it out");
  for (const json::key_value_pair& member : options->get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const bool is_usage = name == "include_usage", is_continuous = name == "continuous_usage_stats";
    // Padding against guessing lengths is not added; asking for it or against it changes no text.
    if (!is_usage && !is_continuous && name != "include_obfuscation") {
      return BadField("stream_options", fmt::format("stream_options has include_usage, continuous_usage_stats and "
                                                    "include_obfuscation, found {}",
                                                    Shown(json::string(member.key()))));
    }
    if (member.value().is_null()) continue;
    const bool* value = member.value().if_bool();
    if (value == nullptr) {
      return BadField("stream_options", fmt::format("stream_options.{} is true or false, found {}", name, Shown(member.value())));
    }
    if (is_usage) out.include_usage = *value;
    if (is_continuous) out.continuous_usage = *value;
  }
  return std::nullopt;
}

// Whichever of the field and the header ends sooner.
std::optional<ApiError> ReadDeadline(const Fields& fields, const HttpRequest& request, GenerationRequest& out) {
  std::optional<double> seconds = fields.TryNumber("timeout");
  if (const std::string* header = request.Find(kTimeoutHeader)) {
    double given = 0;
    const auto [end, error] = std::from_chars(header->data(), header->data() + header->size(), given);
    if (error != std::errc() || end != header->data() + header->size() || !(given >= 0.001 && given <= kTimeoutMaxSeconds)) {
      return BadField("X-Request-Timeout", fmt::format("the header X-Request-Timeout is a number of seconds from 0.001 to {}, "
                                                       "found {}",
                                                       kTimeoutMaxSeconds, Shown(json::string(*header))));
    }
    seconds = std::min(seconds.value_or(given), given);
  }
  if (seconds) out.deadline_ms = static_cast<std::int64_t>(std::ceil(*seconds * 1000));
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> CheckModel(const Fields& fields, const ModelCard& card) {
  const std::string name = fields.Text("model");
  if (!fields.Has("model") || card.Serves(name)) return std::nullopt;
  return ApiError{.status = 404,
                  .message = fmt::format("the model {} is not served here; GET /v1/models lists what is", Shown(json::string(name))),
                  .param = "model",
                  .code = "model_not_found"};
}

std::optional<ApiError> ReadGenerationFields(const Fields& fields, const HttpRequest& request, const ModelCard& card,
                                             GenerationRequest& out) {
  if (std::optional<ApiError> error = CheckModel(fields, card)) return error;
  out.model = fields.Has("model") ? fields.Text("model") : card.id;
  out.n = static_cast<std::int32_t>(fields.Integer("n"));
  out.best_of = out.n;
  out.min_tokens = static_cast<std::int32_t>(fields.Integer("min_tokens"));
  out.max_tokens_given = WantedTokens(fields).has_value();
  ReadSampling(fields, out);
  if (std::optional<ApiError> error = ReadBias(fields, card, out)) return error;
  if (std::optional<ApiError> error = ReadStops(fields, card, out)) return error;
  out.include_stop_in_output = fields.Flag("include_stop_str_in_output");
  out.ignore_eos = fields.Flag("ignore_eos");
  out.skip_special_tokens = fields.Flag("skip_special_tokens");
  if (const std::optional<std::int64_t> count = fields.TryInteger("prompt_logprobs")) {
    out.prompt_logprobs = static_cast<std::int32_t>(*count);
  }
  out.stream = fields.Flag("stream");
  if (std::optional<ApiError> error = ReadStreamOptions(fields, out)) return error;
  out.return_token_ids = fields.Flag("return_token_ids");
  out.cache_salt = fields.Text("cache_salt");
  // The API's order is vLLM's, lower first; the engine's is higher first.
  out.priority = static_cast<std::int32_t>(-fields.Integer("priority"));
  out.user = fields.Text("user");
  return ReadDeadline(fields, request, out);
}

std::optional<std::int32_t> WantedTokens(const Fields& fields) {
  std::optional<std::int64_t> wanted = fields.TryInteger("max_completion_tokens");
  if (!wanted) wanted = fields.TryInteger("max_tokens");
  return wanted ? std::optional(static_cast<std::int32_t>(*wanted)) : std::nullopt;
}

std::optional<ApiError> CheckMinTokens(std::int32_t min_tokens, std::optional<std::int32_t> max_tokens) {
  if (!max_tokens || min_tokens <= *max_tokens) return std::nullopt;
  return BadField("min_tokens", fmt::format("min_tokens is {}, more than the {} of max_tokens; raise that or lower this",
                                            min_tokens, *max_tokens));
}

}  // namespace skein::server
