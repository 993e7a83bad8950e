// SPDX-License-Identifier: Apache-2.0
//
// Wire: how plain values become bytes and come back, for messages between processes. Little-endian, no padding:
//   frame   = magic u32 | version u16 | kind u16 | body length u64 | body | CRC-32C u32 of everything before it
//   numbers as they are; bool u8 (0 or 1); enum as its number; string and vector = count u64 | elements
// A struct has one list of its fields that both directions use:
//   template <class Wire, Same<Thing> T> void Fields(Wire& wire, T& thing) { wire(thing.a, thing.b); }
// found by argument lookup. Reading trusts nothing: each count is compared with the bytes that remain (at the size of the
// smallest element) before memory is taken, and what fails turns the reader into an error, after which all reads give zero.
//
// Thread rule: values, one thread each.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace skein::wire {

static_assert(std::endian::native == std::endian::little, "the wire form is written as numbers lie in memory");

// T is `Thing` or `const Thing`.
template <typename T, typename Thing>
concept Same = std::same_as<std::remove_const_t<T>, Thing>;

// Castagnoli's CRC of 32 bits.
std::uint32_t Crc32c(std::span<const std::byte> bytes);

template <typename T>
concept Number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

class Writer {
 public:
  template <typename... Ts>
  void operator()(const Ts&... values) {
    (Put(values), ...);
  }
  // An enum whose values are 0 … last.
  template <typename E>
  void Enum(const E& value, E /*last*/) {
    Put(static_cast<std::uint8_t>(value));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> TakeBytes() { return std::move(bytes_); }

 private:
  void Append(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  template <Number T>
  void Put(const T& value) {
    Append(&value, sizeof(T));
  }
  void Put(const bool& value) { Put(static_cast<std::uint8_t>(value)); }
  template <typename Tag, typename Value>
  void Put(const Id<Tag, Value>& id) {
    Put(id.value);
  }
  void Put(const std::string& text) {
    Put(static_cast<std::uint64_t>(text.size()));
    Append(text.data(), text.size());
  }
  template <typename A, typename B>
  void Put(const std::pair<A, B>& pair) {
    Put(pair.first);
    Put(pair.second);
  }
  template <typename T>
  void Put(const std::vector<T>& values) {
    Put(static_cast<std::uint64_t>(values.size()));
    if constexpr (Number<T>) {
      Append(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) Put(value);
    }
  }
  template <typename T>
    requires std::is_class_v<T>
  void Put(const T& value) {
    Fields(*this, value);
  }

  std::vector<std::byte> bytes_;
};

// Bytes of the smallest T: one whose strings and vectors are empty.
template <typename T>
std::size_t SmallestSize() {
  if constexpr (std::is_arithmetic_v<T>) return sizeof(T);
  static const std::size_t size = [] {
    Writer writer;
    writer(T{});
    return writer.bytes().size();
  }();
  return size;
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename... Ts>
  void operator()(Ts&... values) {
    (Get(values), ...);
  }
  template <typename E>
  void Enum(E& value, E last) {
    std::uint8_t number = 0;
    Get(number);
    if (number > static_cast<std::uint8_t>(last)) Fail("a value of an enumeration is out of range");
    value = ok() ? static_cast<E>(number) : E{};
  }
  bool ok() const { return error_ == nullptr; }
  // Ok when everything was read and nothing is left.
  Status Finish() const;

 private:
  void Fail(const char* error) {
    if (error_ == nullptr) error_ = error;
    rest_ = {};
  }
  bool Take(void* data, std::size_t size) {
    if (size > rest_.size()) {
      Fail("the message ends too early");
      return false;
    }
    if (size != 0) std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return true;
  }
  // A count of elements that the remaining bytes can hold, or 0 and an error.
  std::size_t Count(std::size_t smallest) {
    std::uint64_t count = 0;
    Get(count);
    if (count > rest_.size() / smallest) {
      Fail("a count is larger than the bytes that follow");
      return 0;
    }
    return static_cast<std::size_t>(count);
  }
  template <Number T>
  void Get(T& value) {
    if (!Take(&value, sizeof(T))) value = T{};
  }
  void Get(bool& value) {
    std::uint8_t number = 0;
    Get(number);
    if (number > 1) Fail("a flag is neither 0 nor 1");
    value = number == 1;
  }
  template <typename Tag, typename Value>
  void Get(Id<Tag, Value>& id) {
    Get(id.value);
  }
  void Get(std::string& text) {
    text.resize(Count(1));
    Take(text.data(), text.size());
  }
  template <typename A, typename B>
  void Get(std::pair<A, B>& pair) {
    Get(pair.first);
    Get(pair.second);
  }
  template <typename T>
  void Get(std::vector<T>& values) {
    const std::size_t count = Count(SmallestSize<T>());
    values.clear();
    if constexpr (Number<T>) {
      values.resize(count);
      Take(values.data(), count * sizeof(T));
    } else {
      for (std::size_t i = 0; i < count && ok(); ++i) Get(values.emplace_back());
    }
  }
  template <typename T>
    requires std::is_class_v<T>
  void Get(T& value) {
    Fields(*this, value);
  }

  std::span<const std::byte> rest_;
  const char* error_ = nullptr;  // a literal
};

// What a frame must begin with.
struct FrameKind {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint16_t kind = 0;
  friend bool operator==(const FrameKind&, const FrameKind&) = default;
};
constexpr std::size_t kFrameHeaderBytes = 16;

std::vector<std::byte> MakeFrame(FrameKind kind, std::span<const std::byte> body);
// The body of a frame that is exactly `bytes`. Errors: kInvalidFile when the start, the length or the checksum is wrong.
Result<std::span<const std::byte>> OpenFrame(FrameKind kind, std::span<const std::byte> bytes);
// The kind of the frame that `bytes` begin with; unchecked but for its length.
Result<FrameKind> PeekFrame(std::span<const std::byte> bytes);

template <typename T>
std::vector<std::byte> Encode(FrameKind kind, const T& value) {
  Writer writer;
  writer(value);
  return MakeFrame(kind, writer.bytes());
}

template <typename T>
Result<T> Decode(FrameKind kind, std::span<const std::byte> bytes) {
  SKEIN_ASSIGN_OR_RETURN(const std::span<const std::byte> body, OpenFrame(kind, bytes));
  Reader reader(body);
  T value;
  reader(value);
  SKEIN_RETURN_IF_ERROR(reader.Finish());
  return value;
}

}  // namespace skein::wire
