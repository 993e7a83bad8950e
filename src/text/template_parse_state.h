// SPDX-License-Identifier: Apache-2.0
//
// What the two halves of the parser share: the tokens, the first error, the arena and the count of nesting. After an
// error the current token is always the end, so that every loop of the parser ends.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/template_ast.h"
#include "text/template_lexer.h"

namespace skein::text::templates {

class ParseState {
 public:
  static constexpr int kNestingMost = 150;  // brackets, `not`, statements within each other
  static constexpr int kHeightMost = 500;   // levels of one expression, chains of filters included

  explicit ParseState(std::vector<Token> tokens) : tokens_(std::move(tokens)), program_(std::make_unique<Program>()) {}

  const Token& Current() const { return failed() ? tokens_.back() : tokens_[at_]; }
  const Token& Look() const { return failed() || at_ + 1 >= tokens_.size() ? tokens_.back() : tokens_[at_ + 1]; }
  Token Next() {
    Token token = Current();
    if (!failed() && at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool SkipName(std::string_view name) { return Current().IsName(name) && (Next(), true); }
  bool SkipOperator(std::string_view op) { return Current().IsOperator(op) && (Next(), true); }
  Token Expect(TokenKind kind, std::string_view what);
  void ExpectName(std::string_view name);
  void ExpectOperator(std::string_view op);

  bool failed() const { return !status_.ok(); }
  const Status& status() const { return status_; }
  void Fail(std::string_view message) { FailAt(Current().line, message); }
  void FailAt(int line, std::string_view message, Code code = Code::kInvalidArgument);

  Program& program() { return *program_; }
  std::unique_ptr<Program> TakeProgram() { return std::move(program_); }
  Expr* NewExpr(ExprKind kind, int line);
  Statement* NewStatement(StatementKind kind, int line);
  // Says that `expr` is complete: its height is known and checked.
  const Expr* Finish(Expr* expr);
  NameId Name(std::string_view name);

  // The names that macros and call blocks treat as special, seen since the innermost one began.
  struct SpecialNames {
    bool caller = false, varargs = false, kwargs = false;
  };
  std::vector<SpecialNames> special_names{1};
  int loops = 0;  // around this place, within the innermost macro

  // Unknown filters and tests are errors of loading, except where a condition decides whether they are reached.
  std::vector<std::pair<int, std::string>> unknown_soft, unknown_hard;

  class Nesting {
   public:
    explicit Nesting(ParseState& state) : state_(state) {
      if (++state_.nesting_ > kNestingMost) state_.FailAt(state_.Current().line, "nests too deeply", Code::kLimit);
    }
    ~Nesting() { --state_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ParseState& state_;
  };

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  Status status_;
  std::unique_ptr<Program> program_;
};

// ---- expressions, template_parse_expressions.cc ----

const Expr* ParseExpression(ParseState& state, bool with_condition = true);
// One expression, or several with commas between as a tuple.
const Expr* ParseTuple(ParseState& state, bool with_condition = true, std::string_view end_name = "");
// What `set` and `for` assign to.
const Expr* ParseTarget(ParseState& state, bool with_namespace, std::string_view end_name = "");
NameId ParseTargetName(ParseState& state);
// `| name(…)` any number of times; with `inline_start` the first bar is left out. Null when there is none.
const Expr* ParseFilters(ParseState& state, const Expr* value, bool inline_start);

}  // namespace skein::text::templates
