// SPDX-License-Identifier: Apache-2.0
//
// Descriptor owns a file descriptor: it is closed when the owner goes.
//
// Thread rule: a value, one thread at a time.
#pragma once

#include <unistd.h>

#include <utility>

namespace skein {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { Close(); }

  bool valid() const { return number_ >= 0; }
  int get() const { return number_; }
  int Release() { return std::exchange(number_, -1); }
  void Close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace skein
