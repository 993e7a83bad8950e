// SPDX-License-Identifier: Apache-2.0
#include "server/openai/encode_within.h"

#include <fmt/format.h>

#include <algorithm>

namespace skein::server {
namespace {

// Text has about 4 bytes for each token; what fits the context is nearly always tokenised once.
constexpr std::size_t kBytesPerToken = 8;
constexpr std::size_t kFirstBytes = 64u << 10;
constexpr std::size_t kGrowth = 4;
// A beginning may have more tokens than the same bytes within the whole: its last word is cut.
constexpr std::size_t kCutTokens = 256;

}  // namespace

ApiError PromptTooLong(std::size_t tokens, bool at_least, std::string_view field, const ModelCard& card) {
  ApiError error = BadField(field, fmt::format("the prompt has {}{} tokens, limit is {}; shorten it or start the server "
                                               "with a larger --context",
                                               at_least ? "at least " : "", tokens, card.context));
  error.code = "context_length_exceeded";
  return error;
}

ApiResult<std::vector<TokenId>> EncodeWithin(std::size_t bytes,
                                             const std::function<std::vector<TokenId>(std::size_t)>& encode,
                                             std::string_view field, const ModelCard& card) {
  const auto context = static_cast<std::size_t>(card.context);
  for (std::size_t part = std::max(context * kBytesPerToken, kFirstBytes); part < bytes; part *= kGrowth) {
    const std::size_t tokens = encode(part).size();
    if (tokens > context + kCutTokens) return PromptTooLong(tokens - kCutTokens, /*at_least=*/true, field, card);
  }
  std::vector<TokenId> tokens = encode(bytes);
  if (tokens.size() > context) return PromptTooLong(tokens.size(), /*at_least=*/false, field, card);
  return tokens;
}

}  // namespace skein::server
