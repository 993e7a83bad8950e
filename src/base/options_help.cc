// SPDX-License-Identifier: Apache-2.0
//
// What people read: the lines of --help and the table of the documentation.
#include <fmt/format.h>

#include <algorithm>

#include "base/options.h"

namespace skein {
namespace {

// Columns of a text, counting characters and not bytes.
std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Appends `text` from column `indent` on, broken between words before `columns`.
void AppendWrapped(std::string& out, std::size_t indent, std::size_t columns, std::string_view text) {
  std::size_t at = indent;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    if (at > indent && at + 1 + WidthOf(word) > columns) {
      out += '\n';
      out.append(indent, ' ');
      at = indent;
    } else if (at > indent) {
      out += ' ';
      ++at;
    }
    out += word;
    at += WidthOf(word);
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  out += '\n';
}

}  // namespace

std::string FieldList::Help(int columns) const {
  const auto left_of = [](const Field& field) {
    if (field.positional_) return "  " + field.name_;
    std::string left = field.letter_ == 0 ? "  --" : fmt::format("  -{}, --", field.letter_);
    left += field.name_;
    return field.value_name_.empty() ? left : left + " " + field.value_name_;
  };
  std::size_t width = 0;
  for (const Field& field : fields_) width = std::max(width, WidthOf(left_of(field)));
  width = std::min<std::size_t>(width + 2, 32);
  std::vector<std::string> groups;  // in order of appearance; positionals have none
  for (const Field& field : fields_) {
    if (!field.positional_ && std::find(groups.begin(), groups.end(), field.group_) == groups.end()) {
      groups.push_back(field.group_);
    }
  }
  std::string out;
  const auto append = [&](const Field& field) {
    std::string left = left_of(field);
    const std::size_t used = WidthOf(left);
    left.append(used < width ? width - used : 2, ' ');
    std::string text = field.help_;
    if (!field.choices_.empty()) text += fmt::format(": {}", fmt::join(field.choices_, "|"));
    // A text that ends in brackets says its default in words.
    if (!field.default_text_.empty() && !field.positional_ && !field.help_.ends_with(']')) text += fmt::format(" [{}]", field.default_text_);
    out += left;
    AppendWrapped(out, std::max(width, used + 2), static_cast<std::size_t>(columns), text);
  };
  for (const Field& field : fields_) {
    if (field.positional_) append(field);
  }
  for (const std::string& group : groups) {
    out += group + ":\n";
    for (const Field& field : fields_) {
      if (!field.positional_ && !field.for_developers_ && field.group_ == group) append(field);
    }
  }
  return out;
}

std::string FieldList::Markdown() const {
  std::string out = "| flag | environment | takes | default | meaning |\n|---|---|---|---|---|\n";
  for (const Field& field : fields_) {
    if (field.positional_ || field.for_developers_) continue;
    const std::string environment = field.EnvironmentName();
    std::string flag = "`--" + field.name_ + (field.value_name_.empty() ? "" : " " + field.value_name_) + "`";
    if (field.letter_ != 0) flag += fmt::format(" `-{}`", field.letter_);
    out += fmt::format("| {} | {} | {} | {} | {} |\n", flag, environment.empty() ? "" : "`" + environment + "`",
                       field.is_switch() ? "" : field.Allowed(),
                       field.default_text_.empty() ? "" : "`" + field.default_text_ + "`", field.help_);
  }
  return out;
}

}  // namespace skein
