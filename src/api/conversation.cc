// SPDX-License-Identifier: Apache-2.0
#include "api/conversation.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <ctime>

#include "text/chat_template.h"

namespace skein::api {
namespace {

// The time for templates that write a date: ISO 8601, no zone.
std::string LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (::localtime_r(&now, &parts) == nullptr) return "1970-01-01T00:00:00";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

std::optional<std::string> TokenAsWritten(const formats::TokenizerData& data, TokenId id) {
  if (id < 0) return std::nullopt;
  for (const formats::AddedToken& added : data.added) {
    if (added.id == id) return added.content;
  }
  const auto place = static_cast<std::size_t>(id);
  return place < data.pieces.size() ? std::optional(data.pieces[place]) : std::nullopt;
}

Result<std::vector<TokenId>> ConversationTokens(const LoadedModel& loaded, const std::vector<Message>& messages) {
  const formats::ModelFile& file = loaded.file();
  if (file.chat_template().empty()) {
    return InvalidArgument(fmt::format("{} has no chat template; give it plain text (--raw)", loaded.info().name), "messages");
  }
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<const text::ChatTemplate> chat_template,
                         text::ChatTemplate::Parse(file.chat_template()));
  text::RenderInput input;
  for (const Message& message : messages) {
    boost::json::object object;
    object["role"] = message.role;
    object["content"] = message.content;
    input.messages.push_back(std::move(object));
  }
  input.add_generation_prompt = true;
  input.bos_token = TokenAsWritten(file.tokenizer(), file.tokenizer().bos);
  input.eos_token = TokenAsWritten(file.tokenizer(), file.tokenizer().eos);
  input.now = LocalTime();
  Result<text::RenderedPrompt> prompt = chat_template->Render(input);
  if (!prompt.ok()) return prompt.status().WithContext("the model's chat template");
  std::vector<text::TextPart> parts;
  for (const text::Span& span : prompt->spans) {
    parts.push_back({std::string_view(prompt->text).substr(span.begin, span.end - span.begin), span.trusted});
  }
  // The template writes the begin token itself where the model wants one.
  return loaded.tokenizer().Encode(parts, /*add_special=*/false);
}

}  // namespace skein::api
