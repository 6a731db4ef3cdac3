def decoder_for(model, longest):
    from .decoders import ModuleDecoder

    return ModuleDecoder(model)
