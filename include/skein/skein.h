// SPDX-License-Identifier: Apache-2.0
//
// Everything of the library's public interface.
#pragma once

#include "skein/engine.h"
#include "skein/options.h"
#include "skein/status.h"
