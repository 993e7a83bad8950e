// SPDX-License-Identifier: Apache-2.0
//
// skein tokenize and skein detokenize: text to ids and back, without loading weights.
#include <fmt/format.h>

#include <memory>

#include "base/json_writer.h"
#include "commands.h"
#include "formats/tokenizer_file.h"
#include "jsonl.h"
#include "model_cache.h"
#include "text/tokenizer.h"

namespace skein::app {
namespace {

constexpr std::uint64_t kTextBytesMax = 1ull << 31;

Result<std::unique_ptr<text::Tokenizer>> OpenTokenizerOf(const std::string& model) {
  SKEIN_ASSIGN_OR_RETURN(const std::string path, ResolveModel(model));
  SKEIN_ASSIGN_OR_RETURN(const formats::TokenizerFile file, formats::OpenTokenizer(path));
  return text::Tokenizer::Create(file.data);
}

std::string IdsJson(std::span<const TokenId> ids) {
  return fmt::format("{{\"ids\":[{}]}}", fmt::join(ids, ","));
}

Result<std::string> TokenizeLine(const text::Tokenizer& tokenizer, const boost::json::object& line) {
  text::EncodeOptions encode;
  SKEIN_ASSIGN_OR_RETURN(encode.add_special, BoolMember(line, "add_special", true));
  SKEIN_ASSIGN_OR_RETURN(encode.parse_special, BoolMember(line, "parse_special", true));
  std::string bytes;
  if (line.contains("bytes_base64")) {
    SKEIN_ASSIGN_OR_RETURN(const std::string base64, TextMember(line, "bytes_base64"));
    SKEIN_ASSIGN_OR_RETURN(bytes, FromBase64(base64));
  } else {
    SKEIN_ASSIGN_OR_RETURN(bytes, TextMember(line, "text"));
  }
  return IdsJson(tokenizer.Encode(bytes, encode));
}

Status CheckInVocabulary(const text::Tokenizer& tokenizer, std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    if (id < tokenizer.vocabulary_size()) continue;
    return LimitExceeded(fmt::format("token id {} is outside the vocabulary of {}", id, tokenizer.vocabulary_size()), "ids");
  }
  return OkStatus();
}

Result<std::string> DetokenizeLine(const text::Tokenizer& tokenizer, const boost::json::object& line) {
  const boost::json::value* value = line.if_contains("ids");
  if (value == nullptr) return InvalidArgument("ids is expected to be a list of token ids, found none", "ids");
  SKEIN_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, IdList(*value, "ids"));
  SKEIN_RETURN_IF_ERROR(CheckInVocabulary(tokenizer, ids));
  SKEIN_ASSIGN_OR_RETURN(const bool skip_special, BoolMember(line, "skip_special", true));
  JsonWriter json;
  json.BeginObject().Member("text", tokenizer.Decode(ids, skip_special)).EndObject();
  return json.Take();
}

}  // namespace

void TokenizeOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a model, or a bare tokenizer.json");
  fields.AddPositional("TEXT", &text, false, "the text; - for standard input");
  fields.Group("Tokens");
  fields.Add("jsonl", "", &jsonl, "answers lines of JSON from standard input").FlagOnly();
  fields.Add("no-special", "", &no_special, "without begin and end tokens");
  fields.Add("parse-special", "", &parse_special, "control tokens written in the text become their ids");
  output.Describe(fields);
}

Status RunTokenize(const TokenizeOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer, OpenTokenizerOf(options.model));
  if (options.jsonl) {
    return AnswerLines([&](const boost::json::object& line) { return TokenizeLine(*tokenizer, line); }, context);
  }
  std::string text = options.text;
  if (text.empty() || text == "-") {
    SKEIN_ASSIGN_OR_RETURN(text, ReadStandardInput(kTextBytesMax));
  }
  const std::vector<TokenId> ids =
      tokenizer->Encode(text, {.add_special = !options.no_special, .parse_special = options.parse_special});
  if (context.json()) return context.out().Write(IdsJson(ids) + "\n");
  return context.out().Write(fmt::format("{}\n", fmt::join(ids, ",")));
}

void DetokenizeOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a model, or a bare tokenizer.json");
  fields.AddPositional("IDS", &tokens, false, "ids with commas between them: 1,2,3; - for standard input");
  fields.Group("Tokens");
  fields.Add("jsonl", "", &jsonl, "answers lines of JSON from standard input").FlagOnly();
  fields.Add("keep-special", "", &keep_special, "control tokens are shown as they are written");
  output.Describe(fields);
}

Status RunDetokenize(const DetokenizeOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer, OpenTokenizerOf(options.model));
  if (options.jsonl) {
    return AnswerLines([&](const boost::json::object& line) { return DetokenizeLine(*tokenizer, line); }, context);
  }
  std::string tokens = options.tokens;
  if (tokens.empty() || tokens == "-") {
    SKEIN_ASSIGN_OR_RETURN(tokens, ReadStandardInput(kTextBytesMax));
  }
  SKEIN_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, IdList(tokens, "IDS"));
  SKEIN_RETURN_IF_ERROR(CheckInVocabulary(*tokenizer, ids));
  const std::string text = tokenizer->Decode(ids, !options.keep_special);
  if (!context.json()) return context.out().Write(text + "\n");
  JsonWriter json;
  json.BeginObject().Member("text", text).EndObject();
  return context.out().Write(json.Take() + "\n");
}

}  // namespace skein::app
