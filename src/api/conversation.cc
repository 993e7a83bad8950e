// SPDX-License-Identifier: Apache-2.0
#include "api/conversation.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "text/chat_template.h"
#include "text/rendered_tokens.h"

namespace skein::api {
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
  input.now = text::LocalTime();
  Result<text::RenderedPrompt> prompt = chat_template->Render(input);
  if (!prompt.ok()) return prompt.status().WithContext("the model's chat template");
  // The template writes the begin token itself where the model wants one.
  return text::EncodeRendered(loaded.tokenizer(), *prompt, /*add_special=*/false);
}

}  // namespace skein::api
