// SPDX-License-Identifier: Apache-2.0
//
// Values of fields: text to value with its limits, and what messages say about them.
#include "base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/checked.h"

namespace skein {
namespace {

// `text` as one number of type T, all of it.
template <typename T>
bool ParseNumber(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseSwitch(std::string_view text, bool& value) {
  value = text == "true" || text == "1" || text == "yes" || text == "on";
  return value || text == "false" || text == "0" || text == "no" || text == "off";
}

bool ParseBytes(std::string_view text, std::uint64_t& value) {
  struct Unit {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr Unit kUnits[] = {{"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30}, {"TiB", 1ull << 40},
                                    {"kB", 1000},        {"MB", 1000000},     {"GB", 1000000000}};
  std::uint64_t factor = 1;
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    factor = unit.bytes;
    text.remove_suffix(unit.name.size());
    break;
  }
  std::uint64_t count = 0;
  if (!ParseNumber(text, count)) return false;
  const auto product = CheckedMultiply(count, factor);
  value = product.value_or(0);
  return product.has_value();
}

bool ParseList(std::string_view text, double minimum, double maximum, std::vector<int>& values) {
  values.clear();
  while (true) {
    const std::size_t comma = text.find(',');
    int value = 0;
    if (!ParseNumber(text.substr(0, comma), value) || value < minimum || value > maximum) return false;
    values.push_back(value);
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

// A limit without digits that mean nothing: 1, 0.5, 1048576.
std::string ShowLimit(double limit) {
  return limit == std::floor(limit) && std::abs(limit) < 1e15 ? fmt::format("{:.0f}", limit) : fmt::format("{}", limit);
}

// What a person typed, short and on one line.
std::string ShowText(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, 60)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      shown += c;
    }
  }
  return shown + (text.size() > 60 ? "…'" : "'");
}

}  // namespace

Field& Field::Range(double minimum, double maximum) {
  minimum_ = minimum;
  maximum_ = maximum;
  return *this;
}

Field& Field::OneOf(std::vector<std::string> choices) {
  choices_ = std::move(choices);
  return *this;
}

Field& Field::Letter(char letter) {
  letter_ = letter;
  return *this;
}

Field& Field::Bytes() {
  bytes_ = true;
  return *this;
}

Field& Field::CalledElsewhere(std::vector<std::string> names) {
  elsewhere_ = std::move(names);
  return *this;
}

Field& Field::FlagOnly() {
  flag_only_ = true;
  return *this;
}

Field& Field::ForDevelopers() {
  for_developers_ = true;
  return *this;
}

std::string Field::Shown() const { return positional_ ? name_ : "--" + name_; }

std::string Field::EnvironmentName() const {
  if (positional_ || flag_only_) return "";
  std::string name = "SKEIN_" + name_;
  for (char& c : name) {
    c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

std::string Field::Allowed() const {
  if (!choices_.empty()) return "one of " + fmt::format("{}", fmt::join(choices_, ", "));
  if (bytes_) return "a size such as 512MiB or 4GiB";
  if (is_switch()) return "true or false";
  std::string kind = "text";
  if (std::holds_alternative<float*>(target_)) kind = "a number";
  if (std::holds_alternative<int*>(target_) || std::holds_alternative<std::uint64_t*>(target_)) kind = "a whole number";
  if (std::holds_alternative<std::vector<int>*>(target_)) kind = "whole numbers with commas between them, each";
  if (kind == "text") return kind;
  const bool below = std::isfinite(minimum_), above = std::isfinite(maximum_);
  if (below && above) return fmt::format("{} from {} to {}", kind, ShowLimit(minimum_), ShowLimit(maximum_));
  if (below) return fmt::format("{} of at least {}", kind, ShowLimit(minimum_));
  if (std::holds_alternative<std::uint64_t*>(target_)) return "a whole number from 0 to 18446744073709551615";
  return kind;
}

Status Field::Set(std::string_view text, OptionSource source, std::string_view origin) {
  const auto within = [this](double value) { return value >= minimum_ && value <= maximum_; };
  const auto set = [&](auto* target) {
    using Value = std::remove_pointer_t<decltype(target)>;
    if constexpr (std::is_same_v<Value, bool>) {
      return ParseSwitch(text, *target);
    } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
      return bytes_ ? ParseBytes(text, *target) : ParseNumber(text, *target) && within(static_cast<double>(*target));
    } else if constexpr (std::is_same_v<Value, int>) {
      return ParseNumber(text, *target) && within(*target);
    } else if constexpr (std::is_same_v<Value, float>) {
      return ParseNumber(text, *target) && std::isfinite(*target) && within(static_cast<double>(*target));
    } else if constexpr (std::is_same_v<Value, std::vector<int>>) {
      return ParseList(text, minimum_, maximum_, *target);
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      if (source_ != source) target->clear();  // a stronger source replaces, the same one adds
      target->emplace_back(text);
      return true;
    } else {
      if (!choices_.empty() && std::find(choices_.begin(), choices_.end(), text) == choices_.end()) return false;
      target->assign(text);
      return true;
    }
  };
  if (!std::visit(set, target_)) {
    return InvalidArgument(fmt::format("{} takes {}, found {}", origin, Allowed(), ShowText(text)), Shown());
  }
  source_ = source;
  return OkStatus();
}

std::string Field::CurrentText() const {
  const auto show = [this](const auto* target) -> std::string {
    using Value = std::remove_cv_t<std::remove_pointer_t<decltype(target)>>;
    if constexpr (std::is_same_v<Value, std::string>) {
      return *target;
    } else if constexpr (std::is_same_v<Value, std::vector<int>>) {
      return fmt::format("{}", fmt::join(*target, ","));
    } else if constexpr (std::is_same_v<Value, bool> || std::is_same_v<Value, std::vector<std::string>>) {
      return "";
    } else if constexpr (std::is_same_v<Value, float>) {
      return fmt::format("{}", *target);
    } else {
      return *target == 0 && minimum_ != 0 && !std::isinf(minimum_) ? "" : fmt::format("{}", *target);
    }
  };
  return std::visit(show, target_);
}

Field& FieldList::Add(std::string name, std::string value_name, Field::Target target, std::string help) {
  Field& field = fields_.emplace_back();
  field.name_ = std::move(name);
  field.value_name_ = std::move(value_name);
  field.target_ = target;
  field.help_ = std::move(help);
  field.group_ = group_;
  field.default_text_ = field.CurrentText();
  return field;
}

Field& FieldList::AddPositional(std::string name, std::string* target, bool required, std::string help) {
  Field& field = Add(std::move(name), "", target, std::move(help));
  field.positional_ = true;
  field.required_ = required;
  return field;
}

const Field* FieldList::Find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (field.name_ == name) return &field;
  }
  return nullptr;
}

std::vector<std::string> FieldList::FlagNames() const {
  std::vector<std::string> names;
  for (const Field& field : fields_) {
    if (!field.positional_) names.push_back(field.name_);
  }
  return names;
}

}  // namespace skein
