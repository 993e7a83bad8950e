// SPDX-License-Identifier: Apache-2.0
//
// tokenizer.json, part by part. A pre-tokenizer is not compiled from its pattern: the few that models use are written
// by hand in text/pre_tokenizer.cc, and here a description is recognised and gets that entry's name.
//
// Source: the file format of the Hugging Face `tokenizers` library.
#include "formats/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "formats/piece_index.h"

namespace skein::formats {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepthMax = 32;
// Ids may leave holes, but no more than this: a file of a few bytes must not ask for gigabytes.
constexpr std::int64_t kHolesMax = 65536;

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }

// One line, whatever the file's strings hold.
Status Wrong(std::string_view part, std::string_view what) {
  std::string message = fmt::format("tokenizer.json: {} {}", part, what);
  for (char& letter : message) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F) letter = '?';
  }
  return InvalidFile(std::move(message), std::string(part));
}

// A value as an error shows it, cut to a decent length.
std::string Shown(const json::value& value) {
  if (const json::string* text = value.if_string()) return fmt::format("\"{:.64}\"", View(*text));
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return json::serialize(value);
}

Result<json::value> ParseJson(const std::string& text, std::string_view file, const json::storage_ptr& storage) {
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::error_code error;
  json::value parsed;
  try {
    parsed = json::parse(json::string_view(text.data(), text.size()), error, storage, options);
  } catch (const std::exception& failure) {
    return InvalidFile(fmt::format("{}: {}", file, failure.what()), std::string(file));
  }
  if (error) return InvalidFile(fmt::format("{} is not valid JSON: {}", file, error.message()), std::string(file));
  if (!parsed.is_object()) return InvalidFile(fmt::format("{} is not a JSON object", file), std::string(file));
  return parsed;
}

// The member, or nullptr when it is absent or null.
const json::value* Member(const json::object& object, std::string_view key) {
  const json::value* found = object.if_contains(json::string_view(key.data(), key.size()));
  return found == nullptr || found->is_null() ? nullptr : found;
}

Result<bool> Flag(const json::object& object, std::string_view key, bool fallback, std::string_view part) {
  const json::value* found = Member(object, key);
  if (found == nullptr) return fallback;
  if (!found->is_bool()) return Wrong(part, fmt::format("has {} = {}, expected true or false", key, Shown(*found)));
  return found->get_bool();
}

// A part such as pre_tokenizer: an object with a type. nullptr when absent or null.
Result<const json::object*> Part(const json::object& whole, std::string_view key) {
  const json::value* found = Member(whole, key);
  if (found == nullptr) return nullptr;
  if (!found->is_object()) return Wrong(key, fmt::format("is {}, expected an object", Shown(*found)));
  return &found->get_object();
}

Result<std::string_view> TypeOf(const json::object& object, std::string_view part) {
  const json::value* type = Member(object, "type");
  if (type == nullptr || !type->is_string()) return Wrong(part, "has no type");
  return View(type->get_string());
}

// The parts of a Sequence, or the object itself when it is none.
Result<std::vector<const json::object*>> Flatten(const json::object& object, std::string_view list_key, std::string_view part) {
  SKEIN_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(object, part));
  if (type != "Sequence") return std::vector<const json::object*>{&object};
  const json::value* list = Member(object, list_key);
  if (list == nullptr || !list->is_array()) return Wrong(part, fmt::format("is a Sequence without the list {}", list_key));
  std::vector<const json::object*> found;
  for (const json::value& item : list->get_array()) {
    if (!item.is_object()) return Wrong(part, "is a Sequence of something that is no object");
    SKEIN_ASSIGN_OR_RETURN(auto inner, Flatten(item.get_object(), list_key, part));
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

// One pre-tokenizer as a line of our own, so that known ones can be compared: "split:Isolated:PATTERN".
Result<std::string> Canonical(const json::object& step) {
  constexpr std::string_view kPart = "pre_tokenizer";
  SKEIN_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(step, kPart));
  if (type == "ByteLevel") {
    SKEIN_ASSIGN_OR_RETURN(const bool prefix, Flag(step, "add_prefix_space", true, kPart));
    if (prefix) return Wrong(kPart, "ByteLevel with add_prefix_space is not supported");
    SKEIN_ASSIGN_OR_RETURN(const bool pattern, Flag(step, "use_regex", true, kPart));
    return std::string(pattern ? "bytes+words" : "bytes");
  }
  if (type == "Digits") {
    SKEIN_ASSIGN_OR_RETURN(const bool single, Flag(step, "individual_digits", false, kPart));
    return std::string(single ? "digit" : "digits");
  }
  if (type != "Split" && type != "Punctuation") return Wrong(kPart, fmt::format("has the unknown type \"{:.64}\"", type));
  std::string behavior = "Isolated";
  if (const json::value* found = Member(step, "behavior")) {
    constexpr std::array<std::string_view, 5> kKnown = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    if (!found->is_string() || std::find(kKnown.begin(), kKnown.end(), View(found->get_string())) == kKnown.end()) {
      return Wrong(kPart, fmt::format("{} has the unknown behavior {}", type, Shown(*found)));
    }
    behavior = View(found->get_string());
  }
  if (type == "Punctuation") return "punctuation:" + behavior;
  SKEIN_ASSIGN_OR_RETURN(const bool invert, Flag(step, "invert", false, kPart));
  if (invert) return Wrong(kPart, "Split with invert is not supported");
  const json::value* pattern = Member(step, "pattern");
  if (pattern == nullptr || !pattern->is_object()) return Wrong(kPart, "Split has no pattern");
  const json::value* regex = Member(pattern->get_object(), "Regex");
  if (regex == nullptr || !regex->is_string()) return Wrong(kPart, "Split has a pattern that is not a Regex");
  return fmt::format("split:{}:{}", behavior, View(regex->get_string()));
}

struct KnownPreTokenizer {
  std::string_view name;
  std::vector<std::string_view> steps;
};

// The patterns are facts about published tokenizers.
const std::vector<KnownPreTokenizer>& KnownPreTokenizers() {
  static const std::vector<KnownPreTokenizer> known = {
      {"gpt-2", {"bytes+words"}},
      {"smollm", {"digit", "bytes+words"}},
      {"llama-bpe",
       {R"(split:Isolated:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        "bytes"}},
      {"qwen2",
       {R"(split:Isolated:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        "bytes"}},
      {"deepseek-v3",
       {R"(split:Isolated:\p{N}{1,3})", "split:Isolated:[一-龥\u3040-ゟ゠-ヿ]+",
        R"re(split:Isolated:[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
        "bytes"}},
      {"falcon", {"punctuation:Contiguous", "bytes+words", "digits", "split:Isolated:[0-9][0-9][0-9]"}},
  };
  return known;
}

class Reader {
 public:
  Reader(const json::object& whole, const json::object* settings) : whole_(whole), settings_(settings) {}

  Result<TokenizerData> Read() {
    SKEIN_RETURN_IF_ERROR(ReadModel());
    SKEIN_RETURN_IF_ERROR(ReadAdded());
    SKEIN_RETURN_IF_ERROR(ReadNormalizer());
    SKEIN_RETURN_IF_ERROR(ReadPreTokenizer());
    SKEIN_RETURN_IF_ERROR(ReadDecoder());
    SKEIN_RETURN_IF_ERROR(ReadSettings());
    SKEIN_RETURN_IF_ERROR(ReadPostProcessor());
    return std::move(data_);
  }

 private:
  auto PieceOf() const {
    return [this](TokenId id) { return std::string_view(data_.pieces[static_cast<std::size_t>(id)]); };
  }

  Status ReadModel() {
    SKEIN_ASSIGN_OR_RETURN(const json::object* model, Part(whole_, "model"));
    if (model == nullptr) return Wrong("model", "is missing");
    const json::value* type = Member(*model, "type");
    if (type != nullptr && (!type->is_string() || View(type->get_string()) != "BPE")) {
      return Wrong("model.type", fmt::format("is {}; known is BPE", Shown(*type)));
    }
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
      const json::value* found = Member(*model, key);
      const bool empty = found == nullptr || (found->is_string() && found->get_string().empty());
      if (!empty) return Wrong(fmt::format("model.{}", key), fmt::format("is {}, which is not supported", Shown(*found)));
    }
    SKEIN_ASSIGN_OR_RETURN(const bool byte_fallback, Flag(*model, "byte_fallback", false, "model"));
    if (byte_fallback) return Wrong("model.byte_fallback", "is set; only byte-level BPE is supported");
    SKEIN_ASSIGN_OR_RETURN(data_.ignore_merges, Flag(*model, "ignore_merges", false, "model"));
    SKEIN_RETURN_IF_ERROR(ReadVocabulary(*model));
    SKEIN_RETURN_IF_ERROR(ReadMerges(*model));
    if (const json::value* unknown = Member(*model, "unk_token")) {
      if (!unknown->is_string()) return Wrong("model.unk_token", fmt::format("is {}, expected a string", Shown(*unknown)));
      data_.unknown = index_.Find(View(unknown->get_string()), PieceOf());
    }
    return OkStatus();
  }

  Status ReadVocabulary(const json::object& model) {
    const json::value* found = Member(model, "vocab");
    if (found == nullptr) return Wrong("model.vocab", "is missing");
    if (!found->is_object()) return Wrong("model.vocab", fmt::format("is {}, expected an object", Shown(*found)));
    const json::object& vocabulary = found->get_object();
    const std::int64_t limit = static_cast<std::int64_t>(vocabulary.size()) + kHolesMax;
    std::int64_t last = -1;
    for (const auto& [piece, id] : vocabulary) {
      const std::int64_t* number = id.if_int64();
      if (number == nullptr || *number < 0 || *number >= limit) {
        return Wrong("model.vocab", fmt::format("gives \"{:.64}\" the id {}, expected 0 to {}",
                                                std::string_view(piece.data(), piece.size()), Shown(id), limit - 1));
      }
      last = std::max(last, *number);
    }
    if (last < 0) return Wrong("model.vocab", "is empty");
    data_.pieces.resize(static_cast<std::size_t>(last) + 1);
    index_ = PieceIndex(vocabulary.size());
    for (const auto& [piece, id] : vocabulary) {
      std::string& place = data_.pieces[static_cast<std::size_t>(id.get_int64())];
      if (!place.empty()) {
        return Wrong("model.vocab", fmt::format("has two pieces of the id {}", id.get_int64()));
      }
      place.assign(piece.data(), piece.size());
      if (!place.empty()) index_.Insert(place, static_cast<TokenId>(id.get_int64()), PieceOf());
    }
    return OkStatus();
  }

  Status ReadMerges(const json::object& model) {
    const json::value* found = Member(model, "merges");
    if (found == nullptr) return Wrong("model.merges", "is missing");
    if (!found->is_array()) return Wrong("model.merges", fmt::format("is {}, expected a list", Shown(*found)));
    std::string joined;
    data_.merges.reserve(found->get_array().size());
    for (const json::value& item : found->get_array()) {
      const std::size_t rank = data_.merges.size();
      const auto wrong = [&](std::string_view what) {
        return Wrong("model.merges", fmt::format("merge {} ({:.64}) {}", rank, json::serialize(item), what));
      };
      const auto halves = Halves(item);
      if (!halves) return wrong("is not two pieces");
      joined.assign(halves->first).append(halves->second);
      Merge merge;
      merge.left = index_.Find(halves->first, PieceOf());
      merge.right = index_.Find(halves->second, PieceOf());
      merge.result = index_.Find(joined, PieceOf());
      merge.rank = static_cast<std::uint32_t>(rank);
      if (merge.left < 0 || merge.right < 0) return wrong("names a piece that the vocabulary lacks");
      if (merge.result < 0) return wrong("makes a piece that the vocabulary lacks");
      data_.merges.push_back(merge);
    }
    return OkStatus();
  }

  // "a b" in older files, ["a", "b"] in newer ones.
  static std::optional<std::pair<std::string_view, std::string_view>> Halves(const json::value& item) {
    if (const json::string* line = item.if_string()) {
      const std::string_view text = View(*line);
      const std::size_t space = text.find(' ');
      if (space == 0 || space == std::string_view::npos || space + 1 == text.size()) return std::nullopt;
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
    const json::array* pair = item.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() || !(*pair)[1].is_string()) return std::nullopt;
    return std::pair(View((*pair)[0].get_string()), View((*pair)[1].get_string()));
  }

  Status ReadAdded() {
    const json::value* found = Member(whole_, "added_tokens");
    if (found == nullptr) return OkStatus();
    if (!found->is_array()) return Wrong("added_tokens", fmt::format("is {}, expected a list", Shown(*found)));
    const std::int64_t limit = static_cast<std::int64_t>(data_.pieces.size() + found->get_array().size()) + kHolesMax;
    for (const json::value& item : found->get_array()) {
      if (!item.is_object()) return Wrong("added_tokens", "has an entry that is no object");
      const json::object& entry = item.get_object();
      const json::value* content = Member(entry, "content");
      if (content == nullptr || !content->is_string() || content->get_string().empty()) {
        return Wrong("added_tokens", "has an entry without content");
      }
      AddedToken token;
      token.content = View(content->get_string());
      const std::string part = fmt::format("added_tokens \"{:.64}\"", token.content);
      const json::value* id = Member(entry, "id");
      const std::int64_t* number = id == nullptr ? nullptr : id->if_int64();
      if (number == nullptr || *number < 0 || *number >= limit) {
        return Wrong(part, fmt::format("has the id {}, expected 0 to {}", id == nullptr ? "null" : Shown(*id), limit - 1));
      }
      token.id = static_cast<TokenId>(*number);
      SKEIN_ASSIGN_OR_RETURN(token.special, Flag(entry, "special", false, part));
      SKEIN_ASSIGN_OR_RETURN(token.single_word, Flag(entry, "single_word", false, part));
      SKEIN_ASSIGN_OR_RETURN(token.left_strip, Flag(entry, "lstrip", false, part));
      SKEIN_ASSIGN_OR_RETURN(token.right_strip, Flag(entry, "rstrip", false, part));
      SKEIN_ASSIGN_OR_RETURN(token.normalized, Flag(entry, "normalized", !token.special, part));
      if (data_.pieces.size() <= static_cast<std::size_t>(token.id)) data_.pieces.resize(static_cast<std::size_t>(token.id) + 1);
      std::string& piece = data_.pieces[static_cast<std::size_t>(token.id)];
      if (!piece.empty() && piece != token.content) {
        return Wrong(part, fmt::format("has the id {} of another token", token.id));
      }
      piece = token.content;
      data_.added.push_back(std::move(token));
    }
    return OkStatus();
  }

  Status ReadNormalizer() {
    SKEIN_ASSIGN_OR_RETURN(const json::object* normalizer, Part(whole_, "normalizer"));
    if (normalizer == nullptr) return OkStatus();
    SKEIN_ASSIGN_OR_RETURN(const auto steps, Flatten(*normalizer, "normalizers", "normalizer"));
    for (const json::object* step : steps) {
      SKEIN_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(*step, "normalizer"));
      if (type == "NFC" && !data_.lowercase) {
        data_.nfc = true;
      } else if (type == "Lowercase") {
        data_.lowercase = true;
      } else {
        return Wrong("normalizer", fmt::format("has the type \"{:.64}\"; known are NFC and then Lowercase", type));
      }
    }
    return OkStatus();
  }

  Status ReadPreTokenizer() {
    SKEIN_ASSIGN_OR_RETURN(const json::object* part, Part(whole_, "pre_tokenizer"));
    if (part == nullptr) return Wrong("pre_tokenizer", "is missing; only byte-level BPE is supported");
    SKEIN_ASSIGN_OR_RETURN(const auto steps, Flatten(*part, "pretokenizers", "pre_tokenizer"));
    std::vector<std::string> lines;
    for (const json::object* step : steps) {
      SKEIN_ASSIGN_OR_RETURN(lines.emplace_back(), Canonical(*step));
    }
    for (const KnownPreTokenizer& known : KnownPreTokenizers()) {
      if (std::equal(lines.begin(), lines.end(), known.steps.begin(), known.steps.end())) {
        data_.pre_tokenizer = known.name;
        return OkStatus();
      }
    }
    std::string shown;
    for (const std::string& line : lines) shown += (shown.empty() ? "" : ", ") + line;
    return Wrong("pre_tokenizer", fmt::format("has a pattern that is not known: {:.200}", shown));
  }

  Status ReadDecoder() {
    SKEIN_ASSIGN_OR_RETURN(const json::object* decoder, Part(whole_, "decoder"));
    if (decoder == nullptr) return Wrong("decoder", "is missing; only ByteLevel is supported");
    SKEIN_ASSIGN_OR_RETURN(const auto steps, Flatten(*decoder, "decoders", "decoder"));
    for (const json::object* step : steps) {
      SKEIN_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(*step, "decoder"));
      if (type != "ByteLevel") return Wrong("decoder", fmt::format("has the type \"{:.64}\"; known is ByteLevel", type));
    }
    return OkStatus();
  }

  // bos_token and eos_token of tokenizer_config.json: a string, or an object with the string as its content.
  Status ReadSettings() {
    if (settings_ == nullptr) return OkStatus();
    for (auto [key, id] : {std::pair("bos_token", &data_.bos), std::pair("eos_token", &data_.eos)}) {
      const json::value* found = Member(*settings_, key);
      if (found != nullptr && found->is_object()) found = Member(found->get_object(), "content");
      if (found == nullptr) continue;
      if (!found->is_string()) {
        return InvalidFile(fmt::format("tokenizer_config.json: {} is {}, expected a string", key, Shown(*found)), key);
      }
      *id = Find(View(found->get_string()));
      if (*id < 0) {
        return InvalidFile(fmt::format("tokenizer_config.json: {} is {}, which is no token", key, Shown(*found)), key);
      }
    }
    return OkStatus();
  }

  TokenId Find(std::string_view content) const {
    for (const AddedToken& token : data_.added) {
      if (token.content == content) return token.id;
    }
    return index_.Find(content, PieceOf());
  }

  Status ReadPostProcessor() {
    SKEIN_ASSIGN_OR_RETURN(const json::object* part, Part(whole_, "post_processor"));
    if (part == nullptr) return OkStatus();
    SKEIN_ASSIGN_OR_RETURN(const auto steps, Flatten(*part, "processors", "post_processor"));
    for (const json::object* step : steps) {
      SKEIN_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(*step, "post_processor"));
      if (type == "ByteLevel") continue;
      if (type != "TemplateProcessing") {
        return Wrong("post_processor", fmt::format("has the type \"{:.64}\"; known are ByteLevel and TemplateProcessing", type));
      }
      SKEIN_RETURN_IF_ERROR(ReadTemplate(*step));
    }
    return OkStatus();
  }

  // The list `single`: at most one token before the text, at most one behind it.
  Status ReadTemplate(const json::object& step) {
    const json::value* single = Member(step, "single");
    if (single == nullptr || !single->is_array()) return Wrong("post_processor", "TemplateProcessing has no list single");
    bool text_seen = false;
    for (const json::value& item : single->get_array()) {
      const json::object* entry = item.if_object();
      if (entry != nullptr && Member(*entry, "Sequence") != nullptr && !text_seen) {
        text_seen = true;
        continue;
      }
      const json::value* special = entry == nullptr ? nullptr : Member(*entry, "SpecialToken");
      const json::value* name = special == nullptr || !special->is_object() ? nullptr : Member(special->get_object(), "id");
      if (name == nullptr || !name->is_string()) return Wrong("post_processor", "has a single that is not tokens around one text");
      const TokenId id = Find(View(name->get_string()));
      if (id < 0) return Wrong("post_processor", fmt::format("names {}, which is no token", Shown(*name)));
      bool& adds = text_seen ? data_.add_eos : data_.add_bos;
      if (adds) return Wrong("post_processor", "adds more than one token before or behind a text, which is not supported");
      adds = true;
      (text_seen ? data_.eos : data_.bos) = id;
    }
    if (!text_seen) return Wrong("post_processor", "has a single without the text");
    return OkStatus();
  }

  const json::object& whole_;
  const json::object* settings_;
  TokenizerData data_;
  PieceIndex index_;
};

}  // namespace

Result<TokenizerData> ReadTokenizerJson(const std::string& tokenizer_json, const std::string& tokenizer_config_json) {
  const json::storage_ptr storage = json::make_shared_resource<json::monotonic_resource>();
  SKEIN_ASSIGN_OR_RETURN(const json::value whole, ParseJson(tokenizer_json, "tokenizer.json", storage));
  if (tokenizer_config_json.empty()) return Reader(whole.get_object(), nullptr).Read();
  SKEIN_ASSIGN_OR_RETURN(const json::value settings, ParseJson(tokenizer_config_json, "tokenizer_config.json", storage));
  return Reader(whole.get_object(), &settings.get_object()).Read();
}

}  // namespace skein::formats
