// SPDX-License-Identifier: Apache-2.0
#include "server/openai/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "server/openai/field_tables.h"
#include "server/openai/fields.h"

namespace skein::server {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 6> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
// Kinds of parts with the member that holds their text.
constexpr std::array<std::array<std::string_view, 2>, 3> kTextParts = {{{"text", "text"}, {"input_text", "text"}, {"refusal", "refusal"}}};

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }

ApiResult<std::string> ReadPart(const json::value& part, const std::string& field) {
  const json::object* object = part.if_object();
  if (object == nullptr) {
    return BadField(field, fmt::format("{} is an object such as {{\"type\": \"text\", \"text\": \"…\"}}, found {}", field, Shown(part)));
  }
  const json::value* type = object->if_contains("type");
  if (type == nullptr || !type->is_string()) {
    return BadField(field, fmt::format("{} has no type; text has {{\"type\": \"text\", \"text\": \"…\"}}", field));
  }
  for (const auto& [kind, member] : kTextParts) {
    if (View(type->get_string()) != kind) continue;
    const json::value* text = object->if_contains({member.data(), member.size()});
    if (text == nullptr || !text->is_string()) return BadField(field, fmt::format("{}.{} is missing or no text", field, member));
    return std::string(View(text->get_string()));
  }
  return BadField(field, fmt::format("{} is of type {}; this model takes parts of type text only", field, Shown(*type)));
}

ApiResult<std::string> ReadParts(const json::array& parts, const std::string& field) {
  if (parts.empty()) return BadField(field, fmt::format("{} is an empty list; give it text", field));
  if (parts.size() > kPartsMax) {
    return BadField(field, fmt::format("{} has at most {} parts, found {}", field, kPartsMax, parts.size()));
  }
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    SKEIN_API_ASSIGN_OR_RETURN(const std::string part, ReadPart(parts[i], fmt::format("{}[{}]", field, i)));
    if (i != 0) text += '\n';
    text += part;
  }
  return text;
}

ApiResult<std::string> ReadContent(const json::object& message, std::string_view role, const std::string& field) {
  const json::value* content = message.if_contains("content");
  if (content == nullptr || content->is_null()) {
    // An assistant that only called tools, or gave a refusal, said nothing.
    if (role == "assistant") return std::string();
    return BadField(field, fmt::format("{} is missing: text, or a list of parts of type text", field));
  }
  if (content->is_string()) return std::string(View(content->get_string()));
  if (content->is_array()) return ReadParts(content->get_array(), field);
  return BadField(field, fmt::format("{} is text or a list of parts of type text, found {}", field, Shown(*content)));
}

ApiResult<json::value> ReadMessage(const json::value& value, const std::string& place) {
  const json::object* message = value.if_object();
  if (message == nullptr) return BadField(place, fmt::format("{} is an object with role and content, found {}", place, Shown(value)));
  const json::value* role = message->if_contains("role");
  const std::string role_field = place + ".role";
  if (role == nullptr || !role->is_string() ||
      std::find(kRoles.begin(), kRoles.end(), View(role->get_string())) == kRoles.end()) {
    return BadField(role_field, fmt::format("{} is one of {}, found {}", role_field, fmt::join(kRoles, ", "),
                                            role == nullptr ? "none" : Shown(*role)));
  }
  SKEIN_API_ASSIGN_OR_RETURN(const std::string content,
                             ReadContent(*message, View(role->get_string()), place + ".content"));
  const json::value* name = message->if_contains("name");
  if (name != nullptr && !name->is_null() && !name->is_string()) {
    return BadField(place + ".name", fmt::format("{}.name is text, found {}", place, Shown(*name)));
  }
  json::object out;
  out["role"] = *role;
  out["content"] = content;
  for (const json::key_value_pair& member : *message) {
    const bool is_done = member.key() == "role" || member.key() == "content";
    const bool is_nothing = member.value().is_null() ||
                            (member.key() == "tool_calls" && member.value().is_array() && member.value().get_array().empty());
    if (!is_done && !is_nothing) out[member.key()] = member.value();
  }
  return json::value(std::move(out));
}

}  // namespace

ApiResult<json::array> ReadMessages(const json::array& messages) {
  if (messages.empty()) return BadField("messages", "messages is an empty list; give it at least one message");
  json::array out;
  out.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    SKEIN_API_ASSIGN_OR_RETURN(json::value message, ReadMessage(messages[i], fmt::format("messages[{}]", i)));
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace skein::server
