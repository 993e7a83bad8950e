// SPDX-License-Identifier: Apache-2.0
//
// map, select and reject: filters that apply a filter or test to each item. They work item by item as their result is
// walked, as the reference's generators do.
#include <fmt/format.h>

#include "text/template_filter_tables.h"
#include "text/template_operators.h"

namespace skein::text::templates {
namespace {

class MapIterator final : public Iterator {
 public:
  MapIterator(Run& run, std::unique_ptr<Iterator> items, const Builtin& filter, Arguments arguments)
      : run_(run), items_(std::move(items)), filter_(filter), arguments_(std::move(arguments)) {}
  bool Next(Value* value) override {
    Value item;
    if (run_.failed() || !items_->Next(&item)) return false;
    *value = CallBuiltin(run_, filter_, item, arguments_);
    return !run_.failed();
  }

 private:
  Run& run_;
  const std::unique_ptr<Iterator> items_;
  const Builtin& filter_;
  const Arguments arguments_;
};

class AttributeIterator final : public Iterator {
 public:
  AttributeIterator(Run& run, std::unique_ptr<Iterator> items, AttributePath path)
      : run_(run), items_(std::move(items)), path_(std::move(path)) {}
  bool Next(Value* value) override {
    Value item;
    if (run_.failed() || !items_->Next(&item)) return false;
    *value = path_.Get(item);
    return !run_.failed();
  }

 private:
  Run& run_;
  const std::unique_ptr<Iterator> items_;
  const AttributePath path_;
};

class SelectIterator final : public Iterator {
 public:
  // `test` may be null: the value's own truth.
  SelectIterator(Run& run, std::unique_ptr<Iterator> items, AttributePath path, const Builtin* test, Arguments arguments,
                 bool keep)
      : run_(run), items_(std::move(items)), path_(std::move(path)), test_(test), arguments_(std::move(arguments)), keep_(keep) {}
  bool Next(Value* value) override {
    while (!run_.failed() && items_->Next(value)) {
      const Value tested = path_.Get(*value);
      const bool holds = Truth(test_ == nullptr ? tested : CallBuiltin(run_, *test_, tested, arguments_));
      if (run_.failed()) return false;
      if (holds == keep_) return true;
    }
    return false;
  }

 private:
  Run& run_;
  const std::unique_ptr<Iterator> items_;
  const AttributePath path_;
  const Builtin* const test_;
  const Arguments arguments_;
  const bool keep_;
};

Value Map(Run& run, const Value& self, Bound& arguments) {
  // What is empty or none needs not be walkable.
  std::unique_ptr<Iterator> items = Iterate(run, Truth(self) ? self : Value());
  if (items == nullptr) return Value();
  std::vector<Value>& positional = arguments.rest.positional;
  if (positional.empty()) {
    Value attribute;
    Value otherwise = Value::None();
    for (const auto& [name, value] : arguments.rest.named) {
      if (name == "attribute") {
        attribute = value;
      } else if (name == "default") {
        otherwise = value;
      } else {
        return run.Fail(fmt::format("Unexpected keyword argument '{}'", name));
      }
    }
    if (attribute.is(Kind::kUndefined)) return run.Fail("map requires a filter argument");
    return MakeGenerator(run, std::make_unique<AttributeIterator>(run, std::move(items), AttributePath(run, attribute, &otherwise)));
  }
  const Value name = positional.front();
  const Builtin* filter = name.IsString() ? FindFilter(name.text().view()) : nullptr;
  if (filter == nullptr) return run.Fail(fmt::format("No filter named '{}'.", name.IsString() ? name.text().view() : "?"));
  positional.erase(positional.begin());
  return MakeGenerator(run, std::make_unique<MapIterator>(run, std::move(items), *filter, std::move(arguments.rest)));
}

Value Choose(Run& run, const Value& self, Bound& arguments, bool by_attribute, bool keep) {
  // What is empty or none needs not be walkable.
  std::unique_ptr<Iterator> items = Iterate(run, Truth(self) ? self : Value());
  if (items == nullptr) return Value();
  std::vector<Value>& positional = arguments.rest.positional;
  Value attribute = Value::None();
  if (by_attribute) {
    if (positional.empty()) return run.Fail("Missing parameter for attribute name");
    attribute = positional.front();
    positional.erase(positional.begin());
  }
  const Builtin* test = nullptr;
  if (!positional.empty()) {
    const Value name = positional.front();
    test = name.IsString() ? FindTest(name.text().view()) : nullptr;
    if (test == nullptr) return run.Fail(fmt::format("No test named '{}'.", name.IsString() ? name.text().view() : "?"));
    positional.erase(positional.begin());
  }
  return MakeGenerator(run, std::make_unique<SelectIterator>(run, std::move(items), AttributePath(run, attribute), test,
                                                             std::move(arguments.rest), keep));
}

Value Select(Run& run, const Value& self, Bound& arguments) { return Choose(run, self, arguments, false, true); }
Value Reject(Run& run, const Value& self, Bound& arguments) { return Choose(run, self, arguments, false, false); }
Value SelectAttr(Run& run, const Value& self, Bound& arguments) { return Choose(run, self, arguments, true, true); }
Value RejectAttr(Run& run, const Value& self, Bound& arguments) { return Choose(run, self, arguments, true, false); }

constexpr Builtin kFilters[] = {
    {"map", Map, "..."},
    {"select", Select, "..."},
    {"reject", Reject, "..."},
    {"selectattr", SelectAttr, "..."},
    {"rejectattr", RejectAttr, "..."},
};

}  // namespace

std::span<const Builtin> SelectFilters() { return kFilters; }

}  // namespace skein::text::templates
