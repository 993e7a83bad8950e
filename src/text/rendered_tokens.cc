// SPDX-License-Identifier: Apache-2.0
#include "text/rendered_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>

namespace skein::text {

std::vector<TokenId> EncodeRendered(const Tokenizer& tokenizer, const RenderedPrompt& prompt, bool add_special,
                                    std::size_t bytes) {
  std::vector<TextPart> parts;
  parts.reserve(prompt.spans.size());
  for (const Span& span : prompt.spans) {
    if (span.begin >= bytes) break;
    parts.push_back({std::string_view(prompt.text).substr(span.begin, std::min(span.end, bytes) - span.begin), span.trusted});
  }
  return tokenizer.Encode(parts, add_special);
}

std::string LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (::localtime_r(&now, &parts) == nullptr) return RenderInput().now;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace skein::text
