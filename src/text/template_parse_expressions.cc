// SPDX-License-Identifier: Apache-2.0
//
// The expressions of chat templates, by recursive descent: from `a if b else c` (weakest) down to names and literals.
// `~` binds stronger than + and weaker than *; a filter binds stronger than any operator, and -x | f is (-x) | f.
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "text/template_builtin.h"
#include "text/template_parse_state.h"

namespace skein::text::templates {
namespace {

struct OperatorRow {
  std::string_view text;
  Op op;
};
constexpr OperatorRow kCompare[] = {{"==", Op::kEqual}, {"!=", Op::kNotEqual}, {"<", Op::kLess},
                                    {"<=", Op::kLessEqual}, {">", Op::kGreater}, {">=", Op::kGreaterEqual}};
constexpr OperatorRow kSum[] = {{"+", Op::kAdd}, {"-", Op::kSubtract}};
constexpr OperatorRow kProduct[] = {
    {"*", Op::kMultiply}, {"/", Op::kDivide}, {"//", Op::kFloorDivide}, {"%", Op::kModulo}};
constexpr OperatorRow kPower[] = {{"**", Op::kPower}};

template <std::size_t N>
const OperatorRow* FindOperator(const Token& token, const OperatorRow (&rows)[N]) {
  if (!token.Is(TokenKind::kOperator)) return nullptr;
  for (const OperatorRow& row : rows) {
    if (row.text == token.text) return &row;
  }
  return nullptr;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(ParseState& state) : s_(state) {}

  const Expr* Condition() {
    ParseState::Nesting nesting(s_);
    const std::size_t unknown = s_.unknown_soft.size();
    const Expr* value = Or();
    while (s_.Current().IsName("if")) {
      Expr* condition = s_.NewExpr(ExprKind::kCondition, s_.Next().line);
      condition->b = value;
      condition->a = Or();
      if (s_.SkipName("else")) condition->c = Condition();
      s_.unknown_soft.resize(std::min(unknown, s_.unknown_soft.size()));
      value = s_.Finish(condition);
    }
    return value;
  }

  const Expr* Or() {
    const Expr* left = And();
    while (s_.Current().IsName("or")) left = Pair(ExprKind::kOr, left, &ExpressionParser::And);
    return left;
  }

  // `simple`: only names, literals and brackets, as targets are.
  const Expr* Tuple(bool simple, bool with_condition, std::string_view end_name, bool brackets, bool with_namespace) {
    Expr* tuple = s_.NewExpr(ExprKind::kTuple, s_.Current().line);
    bool comma = false;
    while (!s_.failed()) {
      if (!tuple->items.empty()) s_.ExpectOperator(",");
      if (TupleEnds(end_name)) break;
      tuple->items.push_back(simple ? Primary(with_namespace) : with_condition ? Condition() : Or());
      if (!s_.Current().IsOperator(",")) break;
      comma = true;
    }
    if (!comma) {
      if (!tuple->items.empty()) return tuple->items[0];
      if (!brackets) s_.Fail(fmt::format("expected an expression, got '{}'", DescribeToken(s_.Current())));
    }
    return s_.Finish(tuple);
  }

  const Expr* Primary(bool with_namespace = false) {
    const Token token = s_.Current();
    switch (token.kind) {
      case TokenKind::kName: return Name(with_namespace);
      case TokenKind::kString: return StringLiteral();
      case TokenKind::kInteger:
      case TokenKind::kFloat: return Number();
      default: break;
    }
    if (token.IsOperator("(")) {
      s_.Next();
      ParseState::Nesting nesting(s_);
      const Expr* inner = Tuple(false, true, "", /*brackets=*/true, false);
      s_.ExpectOperator(")");
      return inner;
    }
    if (token.IsOperator("[")) return List();
    if (token.IsOperator("{")) return Dict();
    s_.Fail(fmt::format("unexpected '{}'", DescribeToken(token)));
    return s_.NewExpr(ExprKind::kConst, token.line);
  }

  const Expr* Filters(const Expr* value, bool inline_start) {
    while (s_.Current().IsOperator("|") || inline_start) {
      if (!inline_start) s_.Next();
      inline_start = false;
      Expr* filter = s_.NewExpr(ExprKind::kFilter, s_.Current().line);
      filter->a = value;
      filter->text = DottedName();
      filter->builtin = FindFilter(filter->text);
      if (filter->builtin == nullptr && !s_.failed()) {
        s_.unknown_soft.emplace_back(filter->line, fmt::format("No filter named '{}'.", filter->text));
      }
      if (s_.Current().IsOperator("(")) filter->arguments = Arguments();
      value = s_.Finish(filter);
    }
    return value;
  }

 private:
  using Rule = const Expr* (ExpressionParser::*)();

  const Expr* Pair(ExprKind kind, const Expr* left, Rule right, Op op = Op::kAdd) {
    Expr* pair = s_.NewExpr(kind, s_.Next().line);
    pair->op = op;
    pair->a = left;
    pair->b = (this->*right)();
    return s_.Finish(pair);
  }

  template <std::size_t N>
  const Expr* Chain(const OperatorRow (&rows)[N], Rule part) {
    const Expr* left = (this->*part)();
    while (const OperatorRow* row = FindOperator(s_.Current(), rows)) left = Pair(ExprKind::kBinary, left, part, row->op);
    return left;
  }

  const Expr* And() {
    const Expr* left = Not();
    while (s_.Current().IsName("and")) left = Pair(ExprKind::kAnd, left, &ExpressionParser::Not);
    return left;
  }

  const Expr* Not() {
    if (!s_.Current().IsName("not")) return Compare();
    ParseState::Nesting nesting(s_);
    Expr* negated = s_.NewExpr(ExprKind::kNot, s_.Next().line);
    negated->a = Not();
    return s_.Finish(negated);
  }

  const Expr* Compare() {
    const Expr* first = Sum();
    Expr* compare = nullptr;
    while (!s_.failed()) {
      Op op = Op::kIn;
      if (const OperatorRow* row = FindOperator(s_.Current(), kCompare)) {
        op = row->op;
      } else if (s_.Current().IsName("not") && s_.Look().IsName("in")) {
        s_.Next();
        op = Op::kNotIn;
      } else if (!s_.Current().IsName("in")) {
        break;
      }
      if (compare == nullptr) {
        compare = s_.NewExpr(ExprKind::kCompare, s_.Current().line);
        compare->items.push_back(first);
      }
      s_.Next();
      compare->ops.push_back(op);
      compare->items.push_back(Sum());
    }
    return compare == nullptr ? first : s_.Finish(compare);
  }

  const Expr* Sum() { return Chain(kSum, &ExpressionParser::Concat); }

  const Expr* Concat() {
    const Expr* first = Product();
    if (!s_.Current().IsOperator("~")) return first;
    Expr* concat = s_.NewExpr(ExprKind::kConcat, s_.Current().line);
    concat->items.push_back(first);
    while (s_.SkipOperator("~")) concat->items.push_back(Product());
    return s_.Finish(concat);
  }

  const Expr* Product() { return Chain(kProduct, &ExpressionParser::Power); }
  const Expr* Power() { return Chain(kPower, &ExpressionParser::Unary); }
  const Expr* Unary() { return Signed(/*with_filters=*/true); }

  const Expr* Signed(bool with_filters) {
    const Expr* value = nullptr;
    if (s_.Current().IsOperator("-") || s_.Current().IsOperator("+")) {
      ParseState::Nesting nesting(s_);
      const Token sign = s_.Next();
      Expr* expr = s_.NewExpr(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, sign.line);
      expr->a = Signed(/*with_filters=*/false);
      value = s_.Finish(expr);
    } else {
      value = Primary();
    }
    value = Postfix(value);
    return with_filters ? FiltersAndTests(value) : value;
  }

  const Expr* Postfix(const Expr* value) {
    while (!s_.failed()) {
      if (s_.Current().IsOperator(".")) {
        value = Attribute(value);
      } else if (s_.Current().IsOperator("[")) {
        value = Subscript(value);
      } else if (s_.Current().IsOperator("(")) {
        value = Call(value);
      } else {
        break;
      }
    }
    return value;
  }

  const Expr* FiltersAndTests(const Expr* value) {
    while (!s_.failed()) {
      if (s_.Current().IsOperator("|")) {
        value = Filters(value, false);
      } else if (s_.Current().IsName("is")) {
        value = Test(value);
      } else if (s_.Current().IsOperator("(")) {
        value = Call(value);
      } else {
        break;
      }
    }
    return value;
  }

  const Expr* Attribute(const Expr* value) {
    const int line = s_.Next().line;
    const Token name = s_.Next();
    if (name.Is(TokenKind::kInteger)) {
      Expr* item = s_.NewExpr(ExprKind::kGetItem, line);
      item->a = value;
      item->b = Integer(name);
      return s_.Finish(item);
    }
    if (!name.Is(TokenKind::kName)) s_.FailAt(line, "expected name or number");
    Expr* attribute = s_.NewExpr(ExprKind::kGetAttr, line);
    attribute->a = value;
    attribute->text = name.text;
    return s_.Finish(attribute);
  }

  const Expr* Subscript(const Expr* value) {
    ParseState::Nesting nesting(s_);
    const int line = s_.Next().line;
    Expr* slice = nullptr;
    std::vector<const Expr*> items;
    while (!s_.failed() && !s_.Current().IsOperator("]")) {
      if (!items.empty() || slice != nullptr) s_.ExpectOperator(",");
      if (slice != nullptr) s_.Fail("a slice stands alone in its brackets");
      const Expr* first = s_.Current().IsOperator(":") ? nullptr : Condition();
      if (!s_.Current().IsOperator(":")) {
        items.push_back(first);
        continue;
      }
      slice = s_.NewExpr(ExprKind::kSlice, line);
      slice->a = value;
      slice->items = {first, nullptr, nullptr};
      for (std::size_t i = 1; i < 3 && s_.SkipOperator(":"); ++i) {
        const Token& next = s_.Current();
        if (!next.IsOperator("]") && !next.IsOperator(",") && !next.IsOperator(":")) slice->items[i] = Condition();
      }
    }
    s_.ExpectOperator("]");
    if (slice != nullptr) {
      if (!items.empty()) s_.Fail("a slice stands alone in its brackets");
      return s_.Finish(slice);
    }
    if (items.empty()) s_.FailAt(line, "expected subscript expression");
    Expr* item = s_.NewExpr(ExprKind::kGetItem, line);
    item->a = value;
    if (items.size() == 1) {
      item->b = items[0];
    } else {
      Expr* tuple = s_.NewExpr(ExprKind::kTuple, line);
      tuple->items = std::move(items);
      item->b = s_.Finish(tuple);
    }
    return s_.Finish(item);
  }

  const Expr* Call(const Expr* callee) {
    Expr* call = s_.NewExpr(ExprKind::kCall, s_.Current().line);
    call->a = callee;
    call->arguments = Arguments();
    return s_.Finish(call);
  }

  CallArguments Arguments() {
    ParseState::Nesting nesting(s_);
    CallArguments arguments;
    const int line = s_.Current().line;
    s_.ExpectOperator("(");
    bool comma = false;
    bool good = true;
    while (!s_.failed() && !s_.Current().IsOperator(")")) {
      if (comma) {
        s_.ExpectOperator(",");
        if (s_.Current().IsOperator(")")) break;
      }
      comma = true;
      if (s_.SkipOperator("*")) {
        good = good && arguments.rest == nullptr && arguments.named_rest == nullptr;
        arguments.rest = Condition();
      } else if (s_.SkipOperator("**")) {
        good = good && arguments.named_rest == nullptr;
        arguments.named_rest = Condition();
      } else if (s_.Current().Is(TokenKind::kName) && s_.Look().IsOperator("=")) {
        good = good && arguments.named_rest == nullptr;
        std::string name = s_.Next().text;
        s_.Next();
        for (const auto& other : arguments.named) good = good && other.first != name;
        arguments.named.emplace_back(std::move(name), Condition());
      } else {
        good = good && arguments.rest == nullptr && arguments.named_rest == nullptr && arguments.named.empty();
        arguments.positional.push_back(Condition());
      }
    }
    if (!good) s_.FailAt(line, "invalid syntax for function call expression");
    s_.ExpectOperator(")");
    return arguments;
  }

  const Expr* Test(const Expr* value) {
    Expr* test = s_.NewExpr(ExprKind::kTest, s_.Next().line);
    const bool negated = s_.SkipName("not");
    test->a = value;
    test->text = DottedName();
    test->builtin = FindTest(test->text);
    if (test->builtin == nullptr && !s_.failed()) {
      s_.unknown_soft.emplace_back(test->line, fmt::format("No test named '{}'.", test->text));
    }
    if (s_.Current().IsOperator("(")) {
      test->arguments = Arguments();
    } else if (TestArgumentFollows()) {
      if (s_.Current().IsName("is")) s_.Fail("You cannot chain multiple tests with is");
      ParseState::Nesting nesting(s_);
      test->arguments.positional.push_back(Postfix(Primary()));
    }
    const Expr* result = s_.Finish(test);
    if (!negated) return result;
    Expr* inverse = s_.NewExpr(ExprKind::kNot, test->line);
    inverse->a = result;
    return s_.Finish(inverse);
  }

  bool TestArgumentFollows() const {
    const Token& token = s_.Current();
    switch (token.kind) {
      case TokenKind::kName: return token.text != "else" && token.text != "or" && token.text != "and";
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat: return true;
      case TokenKind::kOperator: return token.text == "[" || token.text == "{";
      default: return false;
    }
  }

  std::string DottedName() {
    std::string name = s_.Expect(TokenKind::kName, "name").text;
    while (s_.SkipOperator(".")) name += "." + s_.Expect(TokenKind::kName, "name").text;
    return name;
  }

  bool TupleEnds(std::string_view end_name) const {
    const Token& token = s_.Current();
    return token.Is(TokenKind::kVariableEnd) || token.Is(TokenKind::kBlockEnd) || token.IsOperator(")") ||
           (!end_name.empty() && token.IsName(end_name));
  }

  Expr* Constant(ConstKind kind, int line) {
    Expr* constant = s_.NewExpr(ExprKind::kConst, line);
    constant->constant = kind;
    constant->const_id = s_.program().constants++;
    return constant;
  }

  const Expr* Name(bool with_namespace) {
    const Token token = s_.Next();
    if (token.text == "true" || token.text == "false" || token.text == "True" || token.text == "False") {
      Expr* constant = Constant(ConstKind::kBool, token.line);
      constant->boolean = token.text == "true" || token.text == "True";
      return constant;
    }
    if (token.text == "none" || token.text == "None") return Constant(ConstKind::kNone, token.line);
    if (with_namespace && s_.SkipOperator(".")) {
      Expr* target = s_.NewExpr(ExprKind::kNamespaceRef, token.line);
      target->name = s_.Name(token.text);
      target->text = s_.Expect(TokenKind::kName, "name").text;
      return target;
    }
    Expr* name = s_.NewExpr(ExprKind::kName, token.line);
    name->name = s_.Name(token.text);
    name->text = token.text;
    ParseState::SpecialNames& special = s_.special_names.back();
    special.caller |= token.text == "caller";
    special.varargs |= token.text == "varargs";
    special.kwargs |= token.text == "kwargs";
    return name;
  }

  const Expr* StringLiteral() {
    Expr* constant = Constant(ConstKind::kString, s_.Current().line);
    while (s_.Current().Is(TokenKind::kString)) constant->text += s_.Next().text;
    return constant;
  }

  const Expr* Number() {
    const Token token = s_.Next();
    if (token.Is(TokenKind::kInteger)) return Integer(token);
    Expr* constant = Constant(ConstKind::kFloat, token.line);
    const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), constant->real);
    // Out of range is Python's inf or 0, which strtod gives.
    if (error != std::errc()) constant->real = std::strtod(token.text.c_str(), nullptr);
    return constant;
  }

  const Expr* Integer(const Token& token) {
    constexpr std::size_t kDigitsMost = 4300;  // Python's own limit
    if (token.text.size() > kDigitsMost) s_.FailAt(token.line, "integer has too many digits");
    Expr* constant = Constant(ConstKind::kInteger, token.line);
    constant->text = token.text;
    return constant;
  }

  const Expr* List() {
    ParseState::Nesting nesting(s_);
    Expr* list = s_.NewExpr(ExprKind::kList, s_.Next().line);
    while (!s_.failed() && !s_.Current().IsOperator("]")) {
      if (!list->items.empty()) s_.ExpectOperator(",");
      if (s_.Current().IsOperator("]")) break;
      list->items.push_back(Condition());
    }
    s_.ExpectOperator("]");
    return s_.Finish(list);
  }

  const Expr* Dict() {
    ParseState::Nesting nesting(s_);
    Expr* dict = s_.NewExpr(ExprKind::kDict, s_.Next().line);
    while (!s_.failed() && !s_.Current().IsOperator("}")) {
      if (!dict->items.empty()) s_.ExpectOperator(",");
      if (s_.Current().IsOperator("}")) break;
      dict->items.push_back(Condition());
      s_.ExpectOperator(":");
      dict->items.push_back(Condition());
    }
    s_.ExpectOperator("}");
    return s_.Finish(dict);
  }

  ParseState& s_;
};

// Fails for what cannot be assigned to.
void CheckTarget(ParseState& state, const Expr& target) {
  switch (target.kind) {
    case ExprKind::kNamespaceRef: return;
    case ExprKind::kName: return;
    case ExprKind::kTuple:
      for (const Expr* item : target.items) CheckTarget(state, *item);
      return;
    default: state.FailAt(target.line, "cannot assign to this expression");
  }
}

}  // namespace

const Expr* ParseExpression(ParseState& state, bool with_condition) {
  ExpressionParser parser(state);
  return with_condition ? parser.Condition() : parser.Or();
}

const Expr* ParseTuple(ParseState& state, bool with_condition, std::string_view end_name) {
  return ExpressionParser(state).Tuple(false, with_condition, end_name, false, false);
}

const Expr* ParseTarget(ParseState& state, bool with_namespace, std::string_view end_name) {
  const ParseState::SpecialNames before = state.special_names.back();
  const Expr* target = ExpressionParser(state).Tuple(true, true, end_name, false, with_namespace);
  state.special_names.back() = before;  // assigned to, not used
  CheckTarget(state, *target);
  return target;
}

NameId ParseTargetName(ParseState& state) {
  const Token token = state.Expect(TokenKind::kName, "name");
  for (std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (token.text == constant) state.FailAt(token.line, "cannot assign to a constant");
  }
  return state.Name(token.text);
}

const Expr* ParseFilters(ParseState& state, const Expr* value, bool inline_start) {
  return ExpressionParser(state).Filters(value, inline_start);
}

}  // namespace skein::text::templates
