// SPDX-License-Identifier: Apache-2.0
//
// What the operators of the template language do to values, as Python's do: truth, attributes and items, slices,
// walking, comparing, arithmetic. Failures go to the run's meter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/template_ast.h"
#include "text/template_run.h"

namespace skein::text::templates {

bool Truth(const Value& value);
// value.name: methods first, then the keys of a dict.
Value GetAttribute(Run& run, const Value& value, std::string_view name);
// value.name without the keys of a dict.
Value GetMember(Run& run, const Value& value, std::string_view name);
// value[key]: keys and places first, then methods.
Value GetItem(Run& run, const Value& value, const Value& key);
bool IsSliceable(const Value& value);
// value[start:stop:step]; undefined or none for a part that is left out.
Value GetSlice(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step);
// How many items or characters; nothing, without failing, for a value that has no length.
std::optional<std::int64_t> Length(const Value& value);
// Null, and failed, when the value cannot be walked.
std::unique_ptr<Iterator> Iterate(Run& run, const Value& value);
bool IsIterable(const Value& value);
// All items of a walk.
std::vector<Value> Collect(Run& run, const Value& value);
std::vector<Value> Collect(Run& run, Iterator& iterator);
Value MakeGenerator(Run& run, std::unique_ptr<Iterator> iterator, bool reversed = false);

Value Arithmetic(Run& run, Op op, const Value& a, const Value& b);
Value Negate(Run& run, const Value& value);
bool CompareValues(Run& run, Op op, const Value& a, const Value& b);
bool Less(Run& run, const Value& a, const Value& b);

// The number as a double; fails when it is too large.
double ToDouble(Run& run, const Value& number);
BigInt ToBig(const Value& integer);
// Fails the run and says what `value` was used for, when it is undefined.
bool FailIfUndefined(Run& run, const Value& value);

}  // namespace skein::text::templates
