// What GPI-2 declares outside of the standard's header.
#pragma once

#include "GASPI.h"

extern "C" gaspi_return_t gaspi_initialized(gaspi_number_t* initialized);
