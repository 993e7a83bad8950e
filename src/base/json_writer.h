// SPDX-License-Identifier: Apache-2.0
//
// JsonWriter puts JSON text together in the order it is told: objects, arrays, values. Numbers have the fewest digits
// that give them back, and numbers that JSON has no word for become null. Reading JSON is Boost.JSON's work.
//
// Requires: calls make sense as JSON (a Key before each value of an object, every Begin ended).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace skein {

// Appends `text` as a JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);

class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& Text(std::string_view text);
  JsonWriter& Value(double value);
  JsonWriter& Value(float value);
  JsonWriter& Value(bool value);
  JsonWriter& Value(std::int64_t value);
  JsonWriter& Value(std::uint64_t value);
  JsonWriter& Value(int value) { return Value(static_cast<std::int64_t>(value)); }
  JsonWriter& Value(std::string_view text) { return Text(text); }
  JsonWriter& Value(const std::string& text) { return Text(text); }
  JsonWriter& Value(const char* text) { return Text(text); }
  // A value that is JSON text already.
  JsonWriter& Raw(std::string_view json);
  JsonWriter& Null() { return Raw("null"); }

  // Key and value at once.
  template <typename T>
  JsonWriter& Member(std::string_view key, const T& value) {
    Key(key);
    return Value(value);
  }

  const std::string& text() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void BeforeValue();

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace skein
