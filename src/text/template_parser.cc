// SPDX-License-Identifier: Apache-2.0
//
// The statements of chat templates, one method each, found by the tag's first word; see template_parser.h.
#include "text/template_parser.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "text/template_parse_state.h"
#include "text/template_scopes.h"

namespace skein::text::templates {

Token ParseState::Expect(TokenKind kind, std::string_view what) {
  if (!Current().Is(kind)) Fail(fmt::format("expected token '{}', got '{}'", what, DescribeToken(Current())));
  return Next();
}

void ParseState::ExpectName(std::string_view name) {
  if (!SkipName(name)) Fail(fmt::format("expected token '{}', got '{}'", name, DescribeToken(Current())));
}

void ParseState::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) Fail(fmt::format("expected token '{}', got '{}'", op, DescribeToken(Current())));
}

void ParseState::FailAt(int line, std::string_view message, Code code) {
  if (!failed()) status_ = Status(code, fmt::format("template line {}: {}", line, message));
}

Expr* ParseState::NewExpr(ExprKind kind, int line) {
  Expr& expr = program_->expressions.emplace_back();
  expr.kind = kind;
  expr.line = line;
  return &expr;
}

Statement* ParseState::NewStatement(StatementKind kind, int line) {
  Statement& statement = program_->statements.emplace_back();
  statement.kind = kind;
  statement.line = line;
  return &statement;
}

const Expr* ParseState::Finish(Expr* expr) {
  int below = 0;
  const auto look = [&](const Expr* child) { below = std::max(below, child == nullptr ? 0 : child->height); };
  for (const Expr* child : {expr->a, expr->b, expr->c, expr->arguments.rest, expr->arguments.named_rest}) look(child);
  for (const Expr* child : expr->items) look(child);
  for (const Expr* child : expr->arguments.positional) look(child);
  for (const auto& [name, child] : expr->arguments.named) look(child);
  expr->height = below + 1;
  if (expr->height > kHeightMost) FailAt(expr->line, "expression nests too deeply", Code::kLimit);
  return expr;
}

NameId ParseState::Name(std::string_view name) {
  const auto [place, added] = program_->name_ids.try_emplace(std::string(name), NameId{0});
  if (added) {
    place->second = static_cast<NameId>(program_->names.size());
    program_->names.emplace_back(name);
  }
  return place->second;
}

namespace {

class StatementParser {
 public:
  explicit StatementParser(ParseState& state) : s_(state) {}

  // Statements up to the end, or to a tag that begins with one of `ends` (whose name is then the current token).
  Body Statements(std::initializer_list<std::string_view> ends) {
    ParseState::Nesting nesting(s_);
    Body body;
    while (!s_.Current().Is(TokenKind::kEof)) {
      if (s_.Current().Is(TokenKind::kData)) {
        Statement* data = s_.NewStatement(StatementKind::kData, s_.Current().line);
        data->text = s_.Next().text;
        body.push_back(data);
      } else if (s_.Current().Is(TokenKind::kVariableBegin)) {
        Statement* print = s_.NewStatement(StatementKind::kPrint, s_.Next().line);
        print->items.push_back(ParseTuple(s_));
        s_.Expect(TokenKind::kVariableEnd, "end of print statement");
        body.push_back(print);
      } else {
        s_.Next();
        for (std::string_view end : ends) {
          if (s_.Current().IsName(end)) return body;
        }
        if (const Statement* statement = Tag()) body.push_back(statement);
        s_.Expect(TokenKind::kBlockEnd, "end of statement block");
      }
    }
    if (ends.size() != 0) {
      s_.Fail(fmt::format("unexpected end of template; looking for {}", fmt::join(ends, " or ")));
    }
    return body;
  }

 private:
  struct TagRow {
    std::string_view name;
    Statement* (StatementParser::*parse)(int line);
  };
  static const TagRow kTags[17];

  const Statement* Tag() {
    const Token name = s_.Expect(TokenKind::kName, "name");
    for (const TagRow& row : kTags) {
      if (row.name == name.text) return (this->*row.parse)(name.line);
    }
    s_.FailAt(name.line, fmt::format("Encountered unknown tag '{}'.", name.text));
    return nullptr;
  }

  // The rest of an opening tag, then statements up to one of `ends`.
  Body TagBody(std::initializer_list<std::string_view> ends) {
    s_.SkipOperator(":");
    s_.Expect(TokenKind::kBlockEnd, "end of statement block");
    return Statements(ends);
  }
  Body TagBodyToEnd(std::string_view end) {
    Body body = TagBody({end});
    s_.Next();
    return body;
  }

  // Statements that always run once their own block does: unknown filters in them are errors even inside an `if`.
  template <typename Parse>
  void Hard(Parse parse) {
    const std::size_t before = s_.unknown_soft.size();
    parse();
    while (s_.unknown_soft.size() > before) {
      s_.unknown_hard.push_back(std::move(s_.unknown_soft.back()));
      s_.unknown_soft.pop_back();
    }
  }

  Statement* For(int line) {
    Statement* loop = s_.NewStatement(StatementKind::kFor, line);
    loop->target = ParseTarget(s_, false, "in");
    s_.ExpectName("in");
    loop->expr = ParseTuple(s_, /*with_condition=*/false, "recursive");
    if (s_.SkipName("if")) loop->test = ParseExpression(s_);
    loop->recursive = s_.SkipName("recursive");
    Hard([&] {
      ++s_.loops;
      loop->body = TagBody({"endfor", "else"});
      --s_.loops;
      if (s_.Next().text == "else") loop->otherwise = TagBodyToEnd("endfor");
    });
    return loop;
  }

  Statement* If(int line) {
    Statement* branches = s_.NewStatement(StatementKind::kIf, line);
    const std::size_t unknown = s_.unknown_soft.size();
    while (!s_.failed()) {
      Branch branch{ParseTuple(s_, /*with_condition=*/false), {}};
      branch.body = TagBody({"elif", "else", "endif"});
      branches->branches.push_back(std::move(branch));
      const Token next = s_.Next();
      if (next.text == "elif") continue;
      if (next.text == "else") branches->otherwise = TagBodyToEnd("endif");
      break;
    }
    s_.unknown_soft.resize(std::min(unknown, s_.unknown_soft.size()));
    return branches;
  }

  void ParseSignature(Signature& signature) {
    s_.ExpectOperator("(");
    bool defaults = false;
    while (!s_.failed() && !s_.Current().IsOperator(")")) {
      if (!signature.parameters.empty()) s_.ExpectOperator(",");
      Parameter parameter{ParseTargetName(s_), nullptr};
      if (s_.SkipOperator("=")) {
        parameter.value = ParseExpression(s_);
        defaults = true;
      } else if (defaults) {
        s_.Fail("non-default argument follows default argument");
      }
      for (const Parameter& other : signature.parameters) {
        if (other.name == parameter.name) s_.Fail("two parameters have the same name");
      }
      signature.parameters.push_back(parameter);
    }
    s_.ExpectOperator(")");
  }

  // A body that is a function of its own: no break out of it, its special names seen.
  Body FunctionBody(Signature& signature, std::string_view end) {
    Body body;
    Hard([&] {
      const int loops = std::exchange(s_.loops, 0);
      s_.special_names.emplace_back();
      body = TagBodyToEnd(end);
      s_.loops = loops;
      const ParseState::SpecialNames seen = s_.special_names.back();
      s_.special_names.pop_back();
      signature.uses_caller = seen.caller;
      signature.uses_varargs = seen.varargs;
      signature.uses_kwargs = seen.kwargs;
      s_.special_names.back().caller |= seen.caller;
      s_.special_names.back().varargs |= seen.varargs;
      s_.special_names.back().kwargs |= seen.kwargs;
    });
    return body;
  }

  Statement* Macro(int line) {
    Statement* macro = s_.NewStatement(StatementKind::kMacro, line);
    macro->name = ParseTargetName(s_);
    ParseSignature(macro->signature);
    macro->body = FunctionBody(macro->signature, "endmacro");
    return macro;
  }

  Statement* CallBlock(int line) {
    Statement* call = s_.NewStatement(StatementKind::kCallBlock, line);
    if (s_.Current().IsOperator("(")) ParseSignature(call->signature);
    call->expr = ParseExpression(s_);
    if (call->expr->kind != ExprKind::kCall) s_.FailAt(line, "expected call");
    call->body = FunctionBody(call->signature, "endcall");
    return call;
  }

  Statement* FilterBlock(int line) {
    Statement* block = s_.NewStatement(StatementKind::kFilterBlock, line);
    block->expr = ParseFilters(s_, nullptr, /*inline_start=*/true);
    Hard([&] { block->body = TagBodyToEnd("endfilter"); });
    return block;
  }

  Statement* Set(int line) {
    const Expr* target = ParseTarget(s_, /*with_namespace=*/true);
    Statement* set = s_.NewStatement(s_.SkipOperator("=") ? StatementKind::kSet : StatementKind::kSetBlock, line);
    set->target = target;
    if (set->kind == StatementKind::kSet) {
      set->expr = ParseTuple(s_);
    } else {
      set->expr = ParseFilters(s_, nullptr, false);
      Hard([&] { set->body = TagBodyToEnd("endset"); });
    }
    return set;
  }

  Statement* With(int line) {
    Statement* with = s_.NewStatement(StatementKind::kWith, line);
    while (!s_.failed() && !s_.Current().Is(TokenKind::kBlockEnd)) {
      if (!with->assignments.empty()) s_.ExpectOperator(",");
      const Expr* target = ParseTarget(s_, false);
      s_.ExpectOperator("=");
      with->assignments.emplace_back(target, ParseExpression(s_));
    }
    Hard([&] { with->body = TagBodyToEnd("endwith"); });
    return with;
  }

  Statement* Autoescape(int line) {
    Statement* escape = s_.NewStatement(StatementKind::kAutoescape, line);
    escape->expr = ParseExpression(s_);
    Hard([&] { escape->body = TagBodyToEnd("endautoescape"); });
    return escape;
  }

  Statement* Block(int line) {
    Statement* block = s_.NewStatement(StatementKind::kBlock, line);
    const std::string name = s_.Expect(TokenKind::kName, "name").text;
    block->name = s_.Name(name);
    s_.SkipName("scoped");
    const bool required = s_.SkipName("required");
    Hard([&] {
      const int loops = std::exchange(s_.loops, 0);
      block->body = TagBodyToEnd("endblock");
      s_.loops = loops;
    });
    s_.SkipName(name);
    if (required) s_.FailAt(line, "a required block has nothing to fill it");
    if (!s_.program().blocks.emplace(block->name, block).second) {
      s_.FailAt(line, fmt::format("block '{}' defined twice", name));
    }
    return block;
  }

  Statement* Generation(int line) {
    Statement* generation = s_.NewStatement(StatementKind::kGeneration, line);
    Hard([&] {
      const int loops = std::exchange(s_.loops, 0);
      generation->body = TagBodyToEnd("endgeneration");
      s_.loops = loops;
    });
    return generation;
  }

  Statement* Print(int line) {
    Statement* print = s_.NewStatement(StatementKind::kPrint, line);
    while (!s_.failed() && !s_.Current().Is(TokenKind::kBlockEnd)) {
      if (!print->items.empty()) s_.ExpectOperator(",");
      print->items.push_back(ParseExpression(s_));
    }
    return print;
  }

  Statement* LoopControl(StatementKind kind, int line, std::string_view name) {
    if (s_.loops == 0) s_.FailAt(line, fmt::format("'{}' outside loop", name));
    return s_.NewStatement(kind, line);
  }
  Statement* Break(int line) { return LoopControl(StatementKind::kBreak, line, "break"); }
  Statement* Continue(int line) { return LoopControl(StatementKind::kContinue, line, "continue"); }

  // Tags that load another template parse, since a condition may keep them from running.
  Statement* NoLoader(int line, std::string_view tag) {
    Statement* statement = s_.NewStatement(StatementKind::kNoLoader, line);
    statement->text = tag;
    return statement;
  }
  void ContextWords() {
    if ((s_.Current().IsName("with") || s_.Current().IsName("without")) && s_.Look().IsName("context")) {
      s_.Next();
      s_.Next();
    }
  }
  Statement* Include(int line) {
    ParseExpression(s_);
    if (s_.Current().IsName("ignore") && s_.Look().IsName("missing")) {
      s_.Next();
      s_.Next();
    }
    ContextWords();
    return NoLoader(line, "include");
  }
  Statement* Import(int line) {
    ParseExpression(s_);
    s_.ExpectName("as");
    ParseTargetName(s_);
    ContextWords();
    return NoLoader(line, "import");
  }
  Statement* From(int line) {
    ParseExpression(s_);
    s_.ExpectName("import");
    do {
      ParseTargetName(s_);
      if (s_.SkipName("as")) ParseTargetName(s_);
      ContextWords();
    } while (s_.SkipOperator(","));
    return NoLoader(line, "from");
  }
  Statement* Extends(int line) {
    ParseExpression(s_);
    return NoLoader(line, "extends");
  }

  ParseState& s_;
};

const StatementParser::TagRow StatementParser::kTags[17] = {
    {"for", &StatementParser::For},
    {"if", &StatementParser::If},
    {"set", &StatementParser::Set},
    {"macro", &StatementParser::Macro},
    {"call", &StatementParser::CallBlock},
    {"filter", &StatementParser::FilterBlock},
    {"with", &StatementParser::With},
    {"autoescape", &StatementParser::Autoescape},
    {"block", &StatementParser::Block},
    {"generation", &StatementParser::Generation},
    {"print", &StatementParser::Print},
    {"break", &StatementParser::Break},
    {"continue", &StatementParser::Continue},
    {"include", &StatementParser::Include},
    {"import", &StatementParser::Import},
    {"from", &StatementParser::From},
    {"extends", &StatementParser::Extends},
};

}  // namespace

Result<std::unique_ptr<const Program>> ParseTemplate(std::string_view source) {
  constexpr std::size_t kSourceMost = 4u << 20;
  if (source.size() > kSourceMost) {
    return LimitExceeded(fmt::format("template has {} bytes, limit is {}", source.size(), kSourceMost));
  }
  SKEIN_ASSIGN_OR_RETURN(std::vector<Token> tokens, TokenizeTemplate(source));
  ParseState state(std::move(tokens));
  Body body = StatementParser(state).Statements({});
  for (const auto* unknown : {&state.unknown_soft, &state.unknown_hard}) {
    if (!unknown->empty()) state.FailAt(unknown->front().first, unknown->front().second);
  }
  if (state.failed()) return state.status();
  state.program().body = std::move(body);
  AnalyzeScopes(state.program());
  return std::unique_ptr<const Program>(state.TakeProgram());
}

}  // namespace skein::text::templates
