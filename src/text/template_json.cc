// SPDX-License-Identifier: Apache-2.0
//
// JSON as Python's json.dumps writes it; see template_print.h.
#include <cmath>

#include <fmt/format.h>

#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_sort.h"

namespace skein::text::templates {
namespace {

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonOptions& options)
      : run_(run),
        options_(options),
        builder_(run.meter()),
        item_separator_(options.item_separator.value_or(Text(options.indent ? "," : ", ", kUntrusted))),
        key_separator_(options.key_separator.value_or(Text(": ", kUntrusted))) {}

  Text Take() { return builder_.Take(); }

  void Write(const Value& value) {
    DepthGuard guard(run_.meter());
    if (!guard.ok() || !run_.meter().Step()) return;
    switch (value.kind()) {
      case Kind::kNone: return Word("null", value);
      case Kind::kBool: return Word(value.boolean() ? "true" : "false", value);
      case Kind::kFloat: return Word(Number(value.real()), value);
      case Kind::kInt:
      case Kind::kBigInt: return builder_.Append(ToText(run_, value));
      case Kind::kString: return WriteString(value.text());
      case Kind::kList:
      case Kind::kTuple: return WriteList(value.items());
      case Kind::kDict: return WriteDict(value.dict());
      default: run_.Fail(fmt::format("Object of type {} is not JSON serializable", KindName(value)));
    }
  }

 private:
  void Word(std::string_view word, const Value& of) { builder_.Append(word, !of.from_outside()); }
  void Mark(std::string_view mark) { builder_.Append(mark, kUntrusted); }

  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FloatText(value);
  }

  void NewLine() {
    if (!options_.indent) return;
    Mark("\n");
    builder_.AppendRepeated(*options_.indent, level_);
  }

  template <typename Items, typename WriteOne>
  void WriteAll(std::string_view open, const Items& items, std::string_view close, WriteOne write_one) {
    Mark(open);
    if (!items.empty()) {
      ++level_;
      for (std::size_t i = 0; i < items.size() && !run_.failed(); ++i) {
        if (i != 0) builder_.Append(item_separator_);
        NewLine();
        write_one(items[i]);
      }
      --level_;
      NewLine();
    }
    Mark(close);
  }

  void WriteList(const std::vector<Value>& items) {
    WriteAll("[", items, "]", [&](const Value& item) { Write(item); });
  }

  void WriteDict(const DictObject& dict) {
    const auto write = [&](const DictObject::Entry& entry) {
      WriteKey(entry.key);
      builder_.Append(key_separator_);
      Write(entry.value);
    };
    if (!options_.sort_keys) return WriteAll("{", dict.entries(), "}", write);
    std::vector<DictObject::Entry> sorted = dict.entries();
    StableSort(sorted,
               [&](const auto& a, const auto& b) { return !run_.failed() && Less(run_, a.key, b.key); });
    WriteAll("{", sorted, "}", write);
  }

  void WriteKey(const Value& key) {
    switch (key.kind()) {
      case Kind::kString: return WriteString(key.text());
      case Kind::kNone: return WriteString(Text("null", !key.from_outside()));
      case Kind::kBool: return WriteString(Text(key.boolean() ? "true" : "false", !key.from_outside()));
      case Kind::kFloat: return WriteString(Text(Number(key.real()), !key.from_outside()));
      case Kind::kInt:
      case Kind::kBigInt: return WriteString(ToText(run_, key));
      default: run_.Fail(fmt::format("keys must be str, int, float, bool or None, not {}", KindName(key)));
    }
  }

  // The escape of a character, or nothing when it stands for itself.
  std::string Escape(char32_t c) const {
    switch (c) {
      case '"': return "\\\"";
      case '\\': return "\\\\";
      case '\n': return "\\n";
      case '\r': return "\\r";
      case '\t': return "\\t";
      case '\f': return "\\f";
      case '\b': return "\\b";
      default: break;
    }
    const auto code = static_cast<std::uint32_t>(c);
    if (code < 0x20 || (options_.ensure_ascii && code >= 0x7F && code < 0x10000)) {
      return code == 0x7F ? "" : fmt::format("\\u{:04x}", code);
    }
    if (!options_.ensure_ascii || code < 0x80) return "";
    const std::uint32_t rest = code - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  void WriteString(const Text& text) {
    Mark("\"");
    std::size_t plain = 0;
    run_.meter().Work(text.size());
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = 0;
      const std::string escape = Escape(CharAt(text.view(), at, &length));
      if (!escape.empty()) {
        builder_.Append(text, plain, at);
        builder_.Append(escape, text.TrustedAt(at));
        plain = at + length;
      }
      at += length;
    }
    builder_.Append(text, plain, text.size());
    Mark("\"");
  }

  Run& run_;
  const JsonOptions& options_;
  TextBuilder builder_;
  const Text item_separator_;
  const Text key_separator_;
  std::uint64_t level_ = 0;
};

}  // namespace

Text ToJson(Run& run, const Value& value, const JsonOptions& options) {
  JsonWriter writer(run, options);
  writer.Write(value);
  return writer.Take();
}

}  // namespace skein::text::templates
