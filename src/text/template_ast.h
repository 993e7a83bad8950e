// SPDX-License-Identifier: Apache-2.0
//
// The syntax tree of a chat template. Nodes live in the Program's arenas and point at each other; a Program never
// changes after parsing and is shared by any number of renderings and threads.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace skein::text::templates {

struct Builtin;
struct Statement;
using Body = std::vector<const Statement*>;
using NameId = std::uint32_t;  // place in Program::names

enum class ExprKind : std::uint8_t {
  kConst,
  kName,
  kList,
  kTuple,
  kDict,      // items: key, value, key, value, …
  kGetAttr,   // a.text
  kGetItem,   // a[b]
  kSlice,     // a[items[0]:items[1]:items[2]], each may be null
  kCall,      // a(arguments)
  kFilter,    // a | text(arguments); a is null in a filter block
  kTest,      // a is text(arguments)
  kNegate,
  kPlus,
  kNot,
  kAnd,
  kOr,
  kBinary,    // a op b
  kCompare,   // items[0] ops[0] items[1] ops[1] items[2] …
  kConcat,    // items joined by ~
  kCondition, // b if a else c; c may be null
  kNamespaceRef,  // only as a target: name.text
};

enum class Op : std::uint8_t {
  kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower,
  kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn,
};

enum class ConstKind : std::uint8_t { kNone, kBool, kInteger, kFloat, kString };

struct Expr;

struct CallArguments {
  std::vector<const Expr*> positional;
  std::vector<std::pair<std::string, const Expr*>> named;
  const Expr* rest = nullptr;        // *rest
  const Expr* named_rest = nullptr;  // **named_rest
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  Op op = Op::kAdd;
  ConstKind constant = ConstKind::kNone;
  bool boolean = false;
  int line = 0;
  int height = 1;  // levels below, itself included
  NameId name = 0;
  std::uint32_t const_id = 0;  // of kConst: place in a rendering's table of constants
  double real = 0;
  const Expr* a = nullptr;
  const Expr* b = nullptr;
  const Expr* c = nullptr;
  const Builtin* builtin = nullptr;  // of a filter or test, null when there is none of that name
  std::string text;                  // attribute, filter, test, string constant, digits of an integer
  std::vector<const Expr*> items;
  std::vector<Op> ops;
  CallArguments arguments;
};

enum class StatementKind : std::uint8_t {
  kData,
  kPrint,        // items
  kFor,
  kIf,           // branches in turn, then otherwise
  kMacro,
  kCallBlock,    // expr is the call, signature and body make the caller
  kFilterBlock,  // expr is the chain of filters
  kSet,          // target = expr
  kSetBlock,     // target = body, through expr's filters when there are any
  kWith,
  kAutoescape,
  kBlock,
  kGeneration,
  kBreak,
  kContinue,
  kNoLoader,     // include, import, from, extends: there is nothing to load from
};

struct Parameter {
  NameId name;
  const Expr* value;  // the default, or null
};

// Of a macro, or of the body of a call block.
struct Signature {
  std::vector<Parameter> parameters;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Branch {
  const Expr* test;
  Body body;
};

struct Statement {
  StatementKind kind = StatementKind::kData;
  bool recursive = false;  // of a loop
  int line = 0;
  NameId name = 0;         // of a macro or block
  std::string text;        // of kData, and the tag of kNoLoader
  const Expr* target = nullptr;
  const Expr* expr = nullptr;
  const Expr* test = nullptr;  // of a loop
  std::vector<const Expr*> items;
  std::vector<std::pair<const Expr*, const Expr*>> assignments;  // of `with`
  std::vector<Branch> branches;
  Signature signature;
  Body body;
  Body otherwise;
  // Variables that are undefined when the scope of body (or otherwise) begins; see template_scopes.h.
  std::vector<NameId> hidden;
  std::vector<NameId> hidden_otherwise;
};

class Program {
 public:
  Body body;
  std::vector<NameId> hidden;  // of the outermost scope
  std::vector<std::string> names;
  std::unordered_map<NameId, const Statement*> blocks;
  std::uint32_t constants = 0;

  // Of a name that stands in the template, or nothing that any variable has.
  static constexpr NameId kNoName = ~NameId{0};
  NameId FindName(std::string_view name) const {
    const auto found = name_ids.find(std::string(name));
    return found == name_ids.end() ? kNoName : found->second;
  }

  std::unordered_map<std::string, NameId> name_ids;
  std::deque<Expr> expressions;
  std::deque<Statement> statements;
};

}  // namespace skein::text::templates
