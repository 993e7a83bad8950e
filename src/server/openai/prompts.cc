// SPDX-License-Identifier: Apache-2.0
#include "server/openai/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/openai/encode_within.h"
#include "server/openai/field_tables.h"
#include "server/openai/fields.h"

namespace skein::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kShapes = "text, a list of token ids, or a list of either";

std::string_view TextOf(const json::value& value) {
  return {value.get_string().data(), value.get_string().size()};
}

ApiError WrongShape(std::string_view field, const json::value& found) {
  return BadField(field, fmt::format("{} is {}, found {}", field, kShapes, Shown(found)));
}

ApiResult<PromptTokens> ReadIds(const json::array& ids, const std::string& field, const PromptRules& rules,
                                const ModelCard& card) {
  if (ids.size() > static_cast<std::size_t>(card.context)) return PromptTooLong(ids.size(), /*at_least=*/false, field, card);
  PromptTokens prompt;
  SKEIN_API_ASSIGN_OR_RETURN(prompt.tokens, ReadTokenIds(ids, field, card));
  if (rules.decode_ids) prompt.text = card.tokenizer->Decode(prompt.tokens, /*skip_special=*/false);
  return prompt;
}

ApiResult<PromptTokens> ReadText(std::string_view text, const std::string& field, const PromptRules& rules,
                                 const ModelCard& card) {
  PromptTokens prompt;
  const text::EncodeOptions options{.add_special = rules.add_special, .parse_special = rules.parse_special};
  const auto encode = [&](std::size_t bytes) { return card.tokenizer->Encode(text.substr(0, bytes), options); };
  SKEIN_API_ASSIGN_OR_RETURN(prompt.tokens, EncodeWithin(text.size(), encode, field, card));
  if (prompt.tokens.empty()) {
    return BadField(field, fmt::format("{} is empty, and this model has no token to begin with; give it some text", field));
  }
  prompt.text = text;
  return prompt;
}

ApiResult<PromptTokens> ReadOne(const json::value& value, const std::string& field, const PromptRules& rules,
                                const ModelCard& card) {
  return value.is_string() ? ReadText(TextOf(value), field, rules, card) : ReadIds(value.get_array(), field, rules, card);
}

}  // namespace

ApiResult<std::size_t> CountPrompts(const json::value& value, std::string_view field) {
  if (value.is_string()) return std::size_t{1};
  const json::array* list = value.if_array();
  if (list == nullptr) return WrongShape(field, value);
  if (list->empty()) return BadField(field, fmt::format("{} is an empty list; give it text or token ids", field));
  const json::value& first = list->front();
  if (first.is_number()) return std::size_t{1};
  if (!first.is_string() && !first.is_array()) return WrongShape(field, first);
  if (list->size() > kPromptsMax) {
    return BadField(field, fmt::format("{} is a list of at most {} prompts, found {}", field, kPromptsMax, list->size()));
  }
  return list->size();
}

ApiResult<std::vector<PromptTokens>> ReadPrompts(const json::value& value, const PromptRules& rules,
                                                 const ModelCard& card) {
  const ApiResult<std::size_t> count = CountPrompts(value, rules.field);
  if (!count.ok()) return count.error();
  std::vector<PromptTokens> prompts;
  if (value.is_string() || value.get_array().front().is_number()) {
    SKEIN_API_ASSIGN_OR_RETURN(PromptTokens prompt, ReadOne(value, std::string(rules.field), rules, card));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  const json::array& list = value.get_array();
  prompts.reserve(*count);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string field = fmt::format("{}[{}]", rules.field, i);
    if (!list[i].is_string() && !list[i].is_array()) {
      return BadField(field, fmt::format("{} is text or a list of token ids, found {}", field, Shown(list[i])));
    }
    SKEIN_API_ASSIGN_OR_RETURN(PromptTokens prompt, ReadOne(list[i], field, rules, card));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

ApiResult<std::vector<TokenId>> ReadTokenIds(const json::array& ids, std::string_view field, const ModelCard& card) {
  if (ids.empty()) return BadField(field, fmt::format("{} is an empty list; give it token ids", field));
  std::vector<TokenId> tokens;
  tokens.reserve(ids.size());
  for (const json::value& id : ids) {
    const std::optional<WholeNumber> whole = ToWholeNumber(id);
    if (!whole || !whole->IsBetween(0, static_cast<std::uint64_t>(card.vocabulary - 1))) {
      return BadField(field, fmt::format("{} has token ids from 0 to {}, found {} at place {}", field,
                                         card.vocabulary - 1, Shown(id), tokens.size()));
    }
    tokens.push_back(static_cast<TokenId>(whole->magnitude));
  }
  return tokens;
}

std::optional<ApiError> LimitToContext(PromptTokens& prompt, std::optional<std::int32_t> wanted, std::string_view field,
                                       const ModelCard& card) {
  const std::size_t used = prompt.tokens.size();
  const auto context = static_cast<std::size_t>(card.context);
  if (used > context) return PromptTooLong(used, /*at_least=*/false, field, card);
  const auto left = static_cast<std::int32_t>(context - used);
  if (left == 0 && wanted.value_or(1) > 0) {
    ApiError error = PromptTooLong(used, /*at_least=*/false, field, card);
    error.message = fmt::format("the prompt has {} tokens, which leaves no room for an answer: limit is {} for both; "
                                "shorten it or start the server with a larger --context",
                                used, card.context);
    return error;
  }
  prompt.max_tokens = std::min(wanted.value_or(left), left);
  return std::nullopt;
}

}  // namespace skein::server
