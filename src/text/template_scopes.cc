// SPDX-License-Identifier: Apache-2.0
//
// The walk over a program's scopes; see template_scopes.h. Words: a scope knows a name from the first time that it
// reads or assigns it; how it first came to know it decides what the name is when the scope begins.
#include "text/template_scopes.h"

#include <map>
#include <set>

namespace skein::text::templates {
namespace {

enum class Start { kOuter, kParameter, kUndefined };  // what a name is when its scope begins

struct Scope {
  const Scope* parent = nullptr;
  std::map<NameId, Start> names;
  std::set<NameId> stores;

  bool Knows(NameId name) const { return names.contains(name) || (parent != nullptr && parent->Knows(name)); }

  void Read(NameId name) {
    if (!Knows(name)) names.emplace(name, Start::kOuter);
  }
  void Assign(NameId name) {
    stores.insert(name);
    if (names.contains(name)) return;
    const bool outer = parent != nullptr && parent->Knows(name);
    names.emplace(name, outer ? Start::kOuter : Start::kUndefined);
  }
  void Parameter(NameId name) {
    stores.insert(name);
    names[name] = Start::kParameter;
  }
};

class Analyzer {
 public:
  explicit Analyzer(Program& program) : program_(program) {}

  void Root() {
    Scope scope;
    Statements(program_.body, scope);
    program_.hidden = Finish(program_.body, scope);
  }

 private:
  // ---- names of one scope, in the order in which they are met ----

  static void Expression(const Expr* expr, Scope& scope) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName) return scope.Read(expr->name);
    for (const Expr* child : {expr->a, expr->b, expr->c}) Expression(child, scope);
    for (const Expr* child : expr->items) Expression(child, scope);
    for (const Expr* child : expr->arguments.positional) Expression(child, scope);
    for (const auto& [name, child] : expr->arguments.named) Expression(child, scope);
    Expression(expr->arguments.rest, scope);
    Expression(expr->arguments.named_rest, scope);
  }

  static void Target(const Expr* target, Scope& scope, bool parameter) {
    if (target->kind == ExprKind::kTuple) {
      for (const Expr* item : target->items) Target(item, scope, parameter);
    } else if (target->kind == ExprKind::kNamespaceRef) {
      scope.Read(target->name);
    } else if (parameter) {
      scope.Parameter(target->name);
    } else {
      scope.Assign(target->name);
    }
  }

  void Statements(const Body& body, Scope& scope) {
    for (const Statement* statement : body) One(*statement, scope);
  }

  // What a statement means to the scope that it stands in; bodies that are scopes of their own come later.
  void One(const Statement& statement, Scope& scope) {
    switch (statement.kind) {
      case StatementKind::kPrint:
        for (const Expr* item : statement.items) Expression(item, scope);
        break;
      case StatementKind::kFor:
      case StatementKind::kCallBlock:
      case StatementKind::kFilterBlock: Expression(statement.expr, scope); break;
      case StatementKind::kIf: return If(statement, 0, scope);
      case StatementKind::kMacro: scope.Assign(statement.name); break;
      case StatementKind::kSet:
        Expression(statement.expr, scope);
        Target(statement.target, scope, false);
        break;
      case StatementKind::kSetBlock: Target(statement.target, scope, false); break;
      case StatementKind::kWith:
        for (const auto& [target, value] : statement.assignments) Expression(value, scope);
        break;
      default: break;
    }
  }

  // The branches from `first` on: a name that not all of first, later tests and `else` assign is what it was outside.
  void If(const Statement& statement, std::size_t first, Scope& scope) {
    Expression(statement.branches[first].test, scope);
    Scope parts[3] = {scope, scope, scope};
    Statements(statement.branches[first].body, parts[0]);
    for (std::size_t i = first + 1; i < statement.branches.size(); ++i) {
      // A further test is an `if` of its own without an `else`.
      Scope& own = parts[1];
      Expression(statement.branches[i].test, own);
      Scope inner = own;
      Statements(statement.branches[i].body, inner);
      Merge(own, &inner, 1, 3);
    }
    Statements(statement.otherwise, parts[2]);
    Merge(scope, parts, 3, 3);
  }

  static void Merge(Scope& scope, const Scope* parts, std::size_t count, int all) {
    std::map<NameId, int> assigned;
    for (std::size_t i = 0; i < count; ++i) {
      for (const NameId name : parts[i].stores) {
        if (!scope.stores.contains(name)) ++assigned[name];
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto& [name, start] : parts[i].names) scope.names.emplace(name, start);
      scope.stores.insert(parts[i].stores.begin(), parts[i].stores.end());
    }
    for (const auto& [name, times] : assigned) {
      if (times != all) scope.names[name] = Start::kOuter;
    }
  }

  // ---- the scopes within ----

  // Looks into the scopes that open in `body`, now that all names of their surroundings are known; gives what the
  // finished scope hides.
  std::vector<NameId> Finish(const Body& body, const Scope& scope) {
    Inner(body, scope);
    std::vector<NameId> hidden;
    for (const auto& [name, start] : scope.names) {
      if (start == Start::kUndefined) hidden.push_back(name);
    }
    return hidden;
  }

  void Inner(const Body& body, const Scope& scope) {
    for (const Statement* statement : body) {
      if (statement->kind != StatementKind::kIf) {
        Open(*const_cast<Statement*>(statement), scope);  // the program is still being built
        continue;
      }
      for (const Branch& branch : statement->branches) Inner(branch.body, scope);
      Inner(statement->otherwise, scope);
    }
  }

  void Open(Statement& statement, const Scope& around) {
    Scope scope;
    scope.parent = &around;
    switch (statement.kind) {
      case StatementKind::kFor: {
        Scope otherwise = scope;
        Statements(statement.otherwise, otherwise);
        statement.hidden_otherwise = Finish(statement.otherwise, otherwise);
        if (const NameId loop = program_.FindName("loop"); loop != Program::kNoName) scope.Parameter(loop);
        Target(statement.target, scope, true);
        break;
      }
      case StatementKind::kMacro:
      case StatementKind::kCallBlock:
        for (const char* special : {"caller", "varargs", "kwargs"}) {
          if (const NameId name = program_.FindName(special); name != Program::kNoName) scope.Parameter(name);
        }
        for (const Parameter& parameter : statement.signature.parameters) scope.Parameter(parameter.name);
        for (const Parameter& parameter : statement.signature.parameters) Expression(parameter.value, scope);
        break;
      case StatementKind::kWith:
        for (const auto& [target, value] : statement.assignments) Target(target, scope, true);
        break;
      case StatementKind::kBlock: scope.parent = nullptr; break;
      case StatementKind::kFilterBlock:
      case StatementKind::kSetBlock:
      case StatementKind::kAutoescape:
      case StatementKind::kGeneration: break;
      default: return;
    }
    Statements(statement.body, scope);
    statement.hidden = Finish(statement.body, scope);
  }

  Program& program_;
};

}  // namespace

void AnalyzeScopes(Program& program) { Analyzer(program).Root(); }

}  // namespace skein::text::templates
